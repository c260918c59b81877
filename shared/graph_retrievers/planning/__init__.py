"""Plans of typed reasoning paths, the planners that make them, and the rules that judge them."""
