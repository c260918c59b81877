"""The text of the one query: seeds, T steps of activation, entities and chains.

Clauses pass the state on as a list of maps, one for each touched node, so only openCypher is needed: no APOC, no data
science library. Groupings by node replace look-ups of maps by node; for the chains, nodes are numbered by rank, and their
activations and neighbours are lists indexed by number.

Every ORDER BY and every grouping follows a WITH that drops the lists, because the rows to be sorted or grouped would contain
them, and a database counts their memory for each row.
"""

from __future__ import annotations

from dataclasses import dataclass

from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.predicates import Predicate
from graph_retrievers.systems.spreading.chains import ChainSearch

__all__ = ["QueryPlan", "query_text"]


@dataclass(frozen=True)
class QueryPlan:
    """What the text of the query depends on; everything else is a parameter.

    `chains` is None for no chains; with `has_index`, seeds without a name come from the vector index ``$index``, otherwise all
    vectors are compared; `seeds_filtered` and `walk_filtered` exclude the types ``$no_seeds`` and ``$no_walk``; `passages`
    returns the nodes of ``$passage_type`` in place of the activated ones; the filters apply to nodes that are returned, that
    are seeds, and that are walked to; `scope`, which they contain, to nodes whose names are read. The other fields are those of
    :class:`~graph_retrievers.systems.spreading.propagation.GatedPropagation` and
    :class:`~graph_retrievers.systems.spreading.linking.EntityLinking`.
    """

    steps: int
    gate: str
    semantics: str
    fallback_score: str
    chains: ChainSearch | None
    has_index: bool
    seeds_filtered: bool
    walk_filtered: bool
    passages: bool
    filter: Predicate | None = None
    seed_filter: Predicate | None = None
    traversal_filter: Predicate | None = None
    scope: Predicate | None = None


def query_text(database: CypherDatabase, plan: QueryPlan, named: bool) -> str:
    """Return the text of the query.

    With `named`, the entities are ``$entities`` (number, key, vector); otherwise names are searched for in the question, whose runs
    of words are ``$spans`` (key, start, stop, lower).
    """
    parts = [(_entities if named else _dictionary)(database, plan), _nearest(database, plan), _start(database)]
    parts += [_spread(database, plan), _ranked(database)]
    if plan.chains is not None:
        parts.append(_chains(database, plan.chains, plan.traversal_filter))
    parts += [(_passages if plan.passages else _best)(database, plan), _result(database, plan)]
    return "\n".join(parts)


def _is_seed(database: CypherDatabase, plan: QueryPlan, node: str) -> str:
    types = f"NOT coalesce({node}.{database.schema.names()['type']}, '') IN $no_seeds" if plan.seeds_filtered else "true"
    return types + _holds(plan.seed_filter, node)


def _holds(predicate: Predicate | None, node: str) -> str:
    """Return a filter on the node as a further condition."""
    return f" AND {predicate.on(node)}" if predicate is not None else ""


def _cosine(database: CypherDatabase, left: str, right: str) -> str:
    return database.cosine.format(a=left, b=right)


def _entities(database: CypherDatabase, plan: QueryPlan) -> str:
    return """\
// Seeds: every node of an entity's name; entities without one are searched by vector, as far as the budget goes.
UNWIND $entities AS entity
OPTIONAL MATCH (same:{label}) WHERE same.{name_key} = entity.key AND ({allowed})
WITH entity.number AS number, collect(same) AS same
ORDER BY number
WITH collect({{number: number, same: same}}) AS found
WITH reduce(nodes_found = [], f IN found | nodes_found + f.same) AS exact,
     [f IN found WHERE size(f.same) = 0 | f.number] AS missing
WITH exact, missing, [number IN missing[0..$room] | $entities[number].vector] AS searches""".format(
        allowed=_is_seed(database, plan, "same"), **database.schema.names()
    )


def _dictionary(database: CypherDatabase, plan: QueryPlan) -> str:
    return """\
// Seeds: names of nodes that stand in the question, the longest from the left; without such names, nodes near its vector.
UNWIND $spans AS span
MATCH (same:{label}) WHERE same.{name_key} = span.key{scope}
WITH span.start AS start, span.stop AS stop, span.lower AS lower, collect(CASE WHEN {allowed} THEN same END) AS same
ORDER BY start, stop DESC
WITH collect({{start: start, stop: stop, lower: lower, same: same}}) AS matches
WITH reduce(kept = [], m IN matches |
       CASE WHEN size(kept) = 0 OR kept[-1].stop <= m.start THEN kept + [m] ELSE kept END) AS met
WITH met, [m IN met WHERE NOT m.lower] AS written
WITH CASE WHEN $capitals AND size(written) > 0 THEN written ELSE met END AS found
// A name of which no node may be a seed takes its words all the same.
WITH [f IN found WHERE size(f.same) > 0] AS found
WITH reduce(nodes_found = [], f IN found | nodes_found + f.same) AS exact,
     CASE WHEN size(found) = 0 THEN [0] ELSE [] END AS missing,
     CASE WHEN size(found) = 0 THEN $fallback ELSE [] END AS searches""".format(
        allowed=_is_seed(database, plan, "same"),
        scope=f" AND {plan.scope.on('same')}" if plan.scope is not None else "",
        **database.schema.names(),
    )


def _nearest(database: CypherDatabase, plan: QueryPlan) -> str:
    names = database.schema.names()
    vector, allowed = f"near.{names['embedding']}", _is_seed(database, plan, "near")
    search = f"MATCH (near:{names['label']}) WHERE {vector} IS NOT NULL AND {allowed}"
    # In a scope all vectors are compared: those outside it would take places in the answer of an index.
    if plan.has_index and plan.scope is None:
        # An index cannot leave nodes out, so more are requested.
        wider = "10 * $each" if plan.seeds_filtered or plan.seed_filter is not None else "$each"
        search = f"CALL db.index.vector.queryNodes($index, {wider}, wanted) YIELD node AS near\n    "
        search += f"WITH near, wanted WHERE {allowed}"
    score = "(1 + closeness) / 2" if plan.fallback_score == "index" else _cosine(database, vector, "$question")
    return f"""\
{database.call("searches")}
  UNWIND searches AS wanted
  {database.call("wanted")}
    {search}
    WITH near, {_cosine(database, vector, "wanted")} AS closeness
    WITH near, closeness
    ORDER BY closeness DESC, near.{names["position"]}, near.{names["id"]}
    LIMIT $each
    RETURN near, closeness
  }}
  RETURN collect({{n: near, s: {score}}}) AS hits
}}"""


def _start(database: CypherDatabase) -> str:
    return f"""\
{database.call("exact, hits")}
  UNWIND [node IN exact | {{n: node, s: 1.0}}] + hits AS hit
  WITH hit
  WITH hit.n AS seed, max(hit.s) AS score
  WHERE score > 0
  RETURN collect({{n: seed, s: score}}) AS seeds, max(score) AS highest
}}
WITH missing, [x IN seeds | {{n: x.n, r: x.s / highest, trail: [x.n]}}] AS state0"""


def _spread(database: CypherDatabase, plan: QueryPlan) -> str:
    steps = "\n".join(_step(database, plan, step) for step in range(plan.steps))
    return f"{database.call('state0')}\n{steps}\n  RETURN state{plan.steps} AS touched_nodes\n}}"


# The largest of the given activations; of equal ones, that of the lower row.
_LARGEST = """reduce(best = given[0], x IN given |
                   CASE WHEN x.r > best.r OR (x.r = best.r AND x.position < best.position) THEN x ELSE best END)"""


def _step(database: CypherDatabase, plan: QueryPlan, step: int) -> str:
    names = database.schema.names()
    gated = plan.gate == "cosine"
    # A neighbour counts once, or once for each relationship.
    ends = "DISTINCT reached" if plan.semantics == "set" else "reached"
    closed = f" AND reached.{names['embedding']} IS NOT NULL" if gated else ""
    closed += f" AND NOT coalesce(reached.{names['type']}, '') IN $no_walk" if plan.walk_filtered else ""
    closed += _holds(plan.traversal_filter, "reached")
    gate = f"most * {_cosine(database, 'n.' + names['embedding'], '$question')}" if gated else "most"
    return f"""\
  // Step {step + 1}: equation 1 for every neighbour of a node above the threshold, then equation 2.
  UNWIND state{step} AS s
  WITH s.n AS source, s.r AS level, s.trail AS trail
  OPTIONAL MATCH (source)-[{names["edge"]}]-(reached:{names["label"]})
  WHERE level > $threshold{closed}
  WITH source, level, trail, collect({ends}) AS ends
  UNWIND [{{n: source, own: level, trail: trail}}]
       + [x IN ends | {{n: x, given: {{r: level, position: source.{names["position"]}, trail: trail}}}}] AS row
  WITH row
  WITH row.n AS n, coalesce(max(row.own), 0.0) AS own, collect(row.trail) AS trails, collect(row.given) AS given
  WITH n, own, trails, [x IN given WHERE x.r * (1 - 1e-6) > own] AS given
  WITH n, own, trails, given, $decay * reduce(total = 0.0, x IN given | total + x.r) AS most
  WITH n, own, trails, given, CASE WHEN most > $threshold THEN {gate} ELSE 0.0 END AS gain
  WITH n, CASE WHEN gain > $threshold THEN own + gain ELSE own END AS r,
       CASE WHEN own > 0 THEN trails[0]
            ELSE {_LARGEST}.trail + [n]
       END AS trail
  WHERE r > 0
  WITH collect({{n: n, r: r, trail: trail}}) AS state{step + 1}"""


def _ranked(database: CypherDatabase) -> str:
    names = database.schema.names()
    return f"""\
{database.call("touched_nodes")}
  UNWIND touched_nodes AS s
  WITH s, s.r AS r, s.n.{names["position"]} AS position, s.n.{names["id"]} AS id
  WITH s, r, position, id
  ORDER BY r DESC, position, id
  RETURN collect(s) AS state
}}"""


def _chains(database: CypherDatabase, search: ChainSearch, walkable: Predicate | None) -> str:
    names = database.schema.names()
    whole = search.dedupe == "before_limit"
    # Parallel relationships make chains of their own only where each counts towards the limit.
    apart = "" if search.semantics == "rows" and not whole else "\n  WITH pair.i AS i, pair.j AS j, collect(pair)[0] AS pair"
    best = (
        "[k IN range(0, size(r) - 1) | reduce(m = -1e300, x IN adjacent[k] | "
        "CASE WHEN r[x.j] + b{j}[x.j] > m THEN r[x.j] + b{j}[x.j] ELSE m END)]"
    )
    lengths = range(1, search.length + 1)
    bounds = "\n".join(
        f"WITH missing, state, r, adjacent, {''.join(f'b{h}, ' for h in range(j + 1))}{best.format(j=j)} AS b{j + 1}"
        for j in range(search.length - 1)
    )
    # Where a filter says which nodes may be walked to, neighbours and chains carry whether the neighbour and the start may be.
    near, far, start = "", "", ""
    if walkable is not None:
        near, far, start = f"open: {walkable.on('near')}, ", "open: there.open, ", f", open: {walkable.on('state[k].n')}"
    # Ties: the shorter chain, the lower rows, the earlier of parallel relationships.
    order = ["weight DESC", "size(places)"]
    order += [f"places[{k}]" for k in range(search.length + 1)] + [f"c.e[{k}].position" for k in range(search.length)]
    levels = "\n".join(_level(database, search, length, walkable is not None) for length in lengths)
    chains = [f"c{length}[0..$width]" for length in lengths]
    if whole:
        # A shorter chain that can be extended is part of its extension.
        closed = "" if walkable is None else " OR NOT (x.open OR c.open)"
        ended = f"[c IN {{}} WHERE all(x IN adjacent[c.p[-1]] WHERE x.j IN c.p{closed})]"
        chains = [ended.format(chain) for chain in chains[:-1]] + chains[-1:]
    return f"""\
// Chains: relationships whose two ends were touched, as lists of neighbours of each touched node.
{database.call("state")}
  UNWIND range(0, size(state) - 1) AS i
  WITH i, state[i].n AS near
  MATCH (near)-[e{names["edge"]}]-(far:{names["label"]})
  WITH e, {{i: i, {near}forward: startNode(e) = near}} AS end
  WITH e, collect(DISTINCT end) AS ends
  WHERE size(ends) = 2
  UNWIND [[0, 1], [1, 0]] AS o
  WITH ends[o[0]] AS here, ends[o[1]] AS there, e
  RETURN collect({{i: here.i, j: there.i, {far}forward: here.forward,
                  relation: {_relation(database)}, position: e.{names["position"]}}}) AS pairs
}}
{database.call("state, pairs")}
  UNWIND [k IN range(0, size(state) - 1) | {{i: k}}] + pairs AS pair
  WITH pair
  WITH pair
  ORDER BY pair.i, pair.j, pair.position, pair.relation{apart}
  WITH pair.i AS i, collect(CASE WHEN pair.j IS NULL THEN null ELSE pair END) AS out
  ORDER BY i
  RETURN collect(out) AS adjacent
}}
// b1, b2, ...: the most that so many further nodes can add to a chain.
WITH missing, state, [s IN state | s.r] AS r, adjacent
WITH missing, state, r, adjacent, [k IN range(0, size(r) - 1) | 0.0] AS b0
{bounds}
WITH missing, state, r, adjacent, [{", ".join(f"b{length - 1}" for length in lengths)}] AS bounds, [] AS means0,
     [k IN range(0, size(r) - 1) WHERE size(state[k].trail) = 1 | {{p: [k], e: [], s: r[k]{start}}}] AS c0
{levels}
{database.call("state, adjacent, " + ", ".join(f"c{length}" for length in lengths))}
  UNWIND {" + ".join(chains)} AS c
  WITH c, round(1e9 * c.s / size(c.p)) / 1e9 AS weight, state[c.p[-1]] AS last,
       [i IN c.p | coalesce(state[i].n.{names["position"]}, i)] AS places{_one_way(whole, walkable is not None)}
  WITH c, weight, places
  ORDER BY {", ".join(order)}
  LIMIT $chains
  RETURN collect({{p: c.p, steps: c.e, weight: weight}}) AS best_chains
}}"""


def _one_way(whole: bool, filtered: bool) -> str:
    # Of a chain between two seeds, the direction that starts at the lower row stands for both, if the other exists.
    both = " AND c.open" if filtered else ""
    return f"\n  WHERE NOT (size(last.trail) = 1 AND places[-1] < places[0]{both})" if whole else ""


def _level(database: CypherDatabase, search: ChainSearch, length: int, filtered: bool) -> str:
    """Return the step from chains to those one edge longer, of `length` edges: the best by what they can become."""
    further = search.length - length
    bound = (
        f"reduce(m = -1e300, h IN range(0, {further}) | CASE WHEN (s + bounds[h][j]) / ({length + 1} + h) > m "
        f"THEN (s + bounds[h][j]) / ({length + 1} + h) ELSE m END)"
    )
    # Prefixes that cannot reach the worst of the best chains are dropped; with before_limit, no chain is known to be whole yet.
    known = search.dedupe == "after_limit"
    floor = "\n  WHERE size(means) < $chains OR bound >= means[-1] * (1 - 1e-9)" if known else ""
    entered, start = (" AND x.open", ", open: c.open") if filtered else ("", "")
    text = f"""\
{database.call(f"r, adjacent, bounds, means{length - 1}, c{length - 1}")}
  WITH r, adjacent, bounds, means{length - 1} AS means, c{length - 1} AS shorter
  UNWIND shorter[0..$width] AS c
  UNWIND adjacent[c.p[-1]] AS x
  WITH r, bounds, means, c, x
  WHERE NOT x.j IN c.p{entered}
  WITH bounds, means, c, x, x.j AS j, c.s + r[x.j] AS s
  WITH means, c, x, j, s, {bound} AS bound{floor}
  WITH c, x, j, s, bound
  ORDER BY bound DESC
  LIMIT $width + 1
  RETURN collect({{p: c.p + [j], e: c.e + [x], s: s, bound: bound{start}}}) AS c{length}
}}"""
    if not known or not further:
        return text + f"\nWITH *, [] AS means{length}"
    return f"""\
{text}
{database.call(f"means{length - 1}, c{length}")}
  UNWIND means{length - 1} + [c IN c{length} | c.s / {length + 1}] AS mean
  WITH mean
  ORDER BY mean DESC
  LIMIT $chains
  RETURN collect(mean) AS means{length}
}}"""


def _relation(database: CypherDatabase) -> str:
    return f"coalesce(e.{database.schema.names()['relation']}, type(e))"


def _best(database: CypherDatabase, plan: QueryPlan) -> str:
    kept = "state" if plan.filter is None else f"[s IN state WHERE {plan.filter.on('s.n')}]"
    return f"WITH *, {kept}[0..$k] AS best"


def _passages(database: CypherDatabase, plan: QueryPlan) -> str:
    names = database.schema.names()
    gated = plan.gate == "cosine"
    there = f" AND passage.{names['embedding']} IS NOT NULL" if gated else ""
    there += _holds(plan.traversal_filter, "passage") + _holds(plan.filter, "passage")
    gate = f" * {_cosine(database, 'passage.' + names['embedding'], '$question')}" if gated else ""
    return f"""\
// Passages: one more step, from all touched nodes, without decay and threshold.
{database.call("state")}
  UNWIND state AS s
  WITH s.n AS giver, s.r AS level, s.trail AS trail
  MATCH (giver)-[{names["edge"]}]-(passage:{names["label"]})
  WHERE passage.{names["type"]} = $passage_type{there}
  WITH DISTINCT passage, giver, level, trail
  WITH passage, collect({{r: level, position: giver.{names["position"]}, trail: trail}}) AS given
  WITH passage, given, reduce(total = 0.0, x IN given | total + x.r){gate} AS gathered
  WHERE gathered > 0
  WITH passage, gathered, {_LARGEST}.trail + [passage] AS way
  ORDER BY gathered DESC, passage.{names["position"]}, passage.{names["id"]}
  LIMIT $k
  RETURN collect({{n: passage, r: gathered, trail: way}}) AS best
}}"""


def _result(database: CypherDatabase, plan: QueryPlan) -> str:
    names = database.schema.names()
    fields = ", ".join(f"{key}: s.n.{names[key]}" for key in ("id", "name", "text", "type", "metadata"))
    fields += f", similarity: {_similarity(database, 's.n')}"
    chains = ""
    if plan.chains is not None:
        cut = ", ".join(f"c{j + 1}[$width].bound" for j in range(plan.chains.length))
        shown = f"all(i IN c.p WHERE {plan.filter.on('state[i].n')})" if plan.filter is not None else "true"
        node = f"{{id: state[i].n.{names['id']}, name: {_shown_name(database, plan, 'state[i].n')}"
        node += f", similarity: {_similarity(database, 'state[i].n')}}}"
        chains = f""", [{cut}] AS cut,
       [c IN best_chains | {{weight: c.weight, steps: c.steps, returned: {shown}, nodes: [i IN c.p | {node}]}}] AS chains"""
    return f"""\
// What joins the nodes of the paths.
{database.call("best")}
  UNWIND best AS s
  UNWIND range(1, size(s.trail) - 1) AS i
  WITH DISTINCT s.trail[i - 1] AS near, s.trail[i] AS far
  MATCH (near)-[e{names["edge"]}]-(far)
  RETURN collect({{near: near.{names["id"]}, far: far.{names["id"]}, forward: startNode(e) = near,
                  relation: {_relation(database)}, position: e.{names["position"]}}}) AS links
}}
RETURN missing, links{chains}, size(state) AS touched, size(state) > 0 OR EXISTS {{ MATCH (:{names["label"]}) }} AS filled,
       [s IN best | {{r: s.r, trail: [n IN s.trail | n.{names["id"]}],
                         titles: [n IN s.trail | {_shown_name(database, plan, "n")}], {fields}}}] AS found"""


def _similarity(database: CypherDatabase, node: str) -> str:
    vector = f"{node}.{database.schema.names()['embedding']}"
    return f"CASE WHEN $question IS NULL OR {vector} IS NULL THEN null ELSE {_cosine(database, vector, '$question')} END"


def _shown_name(database: CypherDatabase, plan: QueryPlan, node: str) -> str:
    # Names of nodes that may not be returned are not shown on the paths of others.
    name = f"{node}.{database.schema.names()['name']}"
    return name if plan.filter is None else f"CASE WHEN {plan.filter.on(node)} THEN {name} ELSE '' END"
