"""WalkFusion: searches along paths, metapaths and names, fused with hybrid search."""
