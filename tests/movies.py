"""A small typed graph of films, for plans."""

from graph_retrievers.graph import Node

PEOPLE = ["Ada Stone", "Bruno Vale", "Cleo Marsh", "Dora Finch", "Emil Gray", "Fay North"]
FILMS = ["Red Harbour", "The Long Field", "Glass Winter", "Two Rivers", "Night Ferry", "Paper Moon Rising"]
GENRES = ["Drama", "Comedy", "Thriller"]


def movie_nodes():
    nodes = [Node(f"p{i}", f"{name} works in film.", name, "person") for i, name in enumerate(PEOPLE)]
    nodes += [Node(f"m{i}", f"{title} is a film.", title, "movie") for i, title in enumerate(FILMS)]
    return nodes + [Node(f"g{i}", f"{name} is a genre.", name, "genre") for i, name in enumerate(GENRES)]


def movie_edges():
    edges = []
    for i in range(len(FILMS)):
        edges += [(f"m{i}", f"p{i}", "directed_by"), (f"m{i}", f"p{(i + 1) % 6}", "starred_actors")]
        edges += [(f"m{i}", f"p{i}", "written_by")] if i % 2 else []
        edges.append((f"m{i}", f"g{i % 3}", "has_genre"))
    return edges
