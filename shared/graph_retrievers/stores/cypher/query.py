"""The text of the query: seeds, T steps of activation, entities and chains.

Clauses pass the state on as a list of maps, one for each touched node, so only openCypher is needed: no APOC, no data
science library. Groupings by node replace look-ups of maps by node; for the chains, nodes are numbered by rank, and their
activations and neighbours are lists indexed by number.

Every ORDER BY and every grouping follows a WITH that drops the lists, because the rows to be sorted or grouped would contain
them, and a database counts their memory for each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graph_retrievers.graph.blank import BLANK
from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.predicates import filter_predicate
from graph_retrievers.stores.filters import Predicate
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.spreading.propagation import GatedPropagation

# The largest of the given activations; of equal ones, that of the lower row.
_LARGEST = """reduce(best = given[0], x IN given |
                   CASE WHEN x.r > best.r OR (x.r = best.r AND x.position < best.position) THEN x ELSE best END)"""


@dataclass(frozen=True)
class SpreadingQuery:
    """The query of a retriever, from the equivalent operators in memory: its text, and its parameters.

    `chains` is None for no chains; with a `vector_index`, seeds without a name come from it, otherwise all vectors are compared;
    with `passage_types`, the nodes of these types are returned instead of the activated ones. The filters apply to nodes that are
    returned, that are seeds, and that are visited; `scope`, which they contain, to nodes whose names are read.
    """

    database: CypherDatabase
    propagation: GatedPropagation
    linking: EntityLinking
    k: int
    chains: ChainSearch | None = None
    vector_index: str | None = None
    passage_types: tuple[str, ...] = ()
    filter: Predicate | None = None
    seed_filter: Predicate | None = None
    traversal_filter: Predicate | None = None
    scope: Predicate | None = None

    @cached_property
    def names(self) -> dict[str, str]:
        """Labels and properties of the graph, quoted."""
        return self.database.schema.names()

    @cached_property
    def readable(self) -> Predicate:
        """The condition that a node has something to read."""
        return filter_predicate(self.database.schema, {BLANK: {"$exists": False}}, "readable")

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that all questions share."""
        parameters = {
            "k": self.k,
            "decay": self.propagation.decay,
            "threshold": self.propagation.threshold,
            "index": self.vector_index,
            "no_seeds": self._no_seeds,
            "no_walk": list(self.propagation.exclude_types),
            "passage_types": list(self.passage_types),
        }
        if self.chains is not None:
            parameters |= {"chains": self.chains.limit, "width": self.chains.width}
        for predicate in (self.filter, self.seed_filter, self.traversal_filter, self.scope):
            parameters |= {} if predicate is None else predicate.parameters
        return parameters

    def text(self, named: bool) -> str:
        """Return the text of the query.

        With `named`, the entities are ``$entities`` (number, key, vector); otherwise names are searched for in the question, whose
        runs of words are ``$spans`` (key, start, stop, lower).
        """
        parts = [self._entities() if named else self._dictionary(), self._nearest(), self._start(), self._spread(), self._ranked()]
        if self.chains is not None:
            parts.append(self._chains(self.chains))
        parts += [self._passages() if self.passage_types else self._best(), self._result()]
        return "\n".join(parts)

    @property
    def listing(self) -> str:
        """The text of the query for the first nodes that pass the filter, of those that may be returned, in their order."""
        types = f"coalesce(n.{self.names['type']}, '')"
        condition = f"{types} IN $passage_types" if self.passage_types else f"NOT {types} IN $no_walk"
        fields = ", ".join(f"n.{self.names[key]} AS {key}" for key in ("id", "name", "text", "type", "metadata"))
        return f"""\
    MATCH (n:{self.names["label"]}) WHERE {condition}{_holds(self.readable, "n")}{_holds(self.filter, "n")}
    WITH n ORDER BY n.{self.names["position"]}, n.{self.names["id"]} LIMIT $k
    RETURN {fields}"""

    @property
    def scope_key(self) -> str:
        """A key for the scope; "" for none."""
        return "" if self.scope is None else repr((self.scope.text, sorted(self.scope.parameters.items())))

    @property
    def _no_seeds(self) -> list[str]:
        return [*self.linking.exclude_types, *self.propagation.exclude_types]

    @property
    def _gated(self) -> bool:
        return self.propagation.gate == "cosine"

    def _is_seed(self, node: str) -> str:
        types = f"NOT coalesce({node}.{self.names['type']}, '') IN $no_seeds" if self._no_seeds else "true"
        return types + _holds(self.readable, node) + _holds(self.seed_filter, node)

    def _cosine(self, left: str, right: str) -> str:
        return self.database.cosine.format(a=left, b=right)

    def _entities(self) -> str:
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
            allowed=self._is_seed("same"), **self.names
        )

    def _dictionary(self) -> str:
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
    // A name takes its words, even if none of its nodes may be a seed.
    WITH [f IN found WHERE size(f.same) > 0] AS found
    WITH reduce(nodes_found = [], f IN found | nodes_found + f.same) AS exact,
         CASE WHEN size(found) = 0 THEN [0] ELSE [] END AS missing,
         CASE WHEN size(found) = 0 THEN $fallback ELSE [] END AS searches""".format(
            allowed=self._is_seed("same"),
            scope=_holds(self.scope, "same"),
            **self.names,
        )

    def _nearest(self) -> str:
        vector, condition = f"near.{self.names['embedding']}", self._is_seed("near")
        search = f"MATCH (near:{self.names['label']}) WHERE {vector} IS NOT NULL AND {condition}"
        # In a scope all vectors are compared: those outside it would take places in the answer of an index.
        if self.vector_index is not None and self.scope is None:
            # An index cannot leave nodes out, so more are requested.
            limit = "10 * $each" if self._no_seeds or self.seed_filter is not None else "$each"
            search = f"CALL db.index.vector.queryNodes($index, {limit}, wanted) YIELD node AS near\n    "
            search += f"WITH near, wanted WHERE {condition}"
        score = "(1 + closeness) / 2" if self.linking.fallback_score == "index" else self._cosine(vector, "$question")
        return f"""\
    {self.database.call("searches")}
      UNWIND searches AS wanted
      {self.database.call("wanted")}
        {search}
        WITH near, {self._cosine(vector, "wanted")} AS closeness
        WITH near, closeness
        ORDER BY closeness DESC, near.{self.names["position"]}, near.{self.names["id"]}
        LIMIT $each
        RETURN near, closeness
      }}
      RETURN collect({{n: near, s: {score}}}) AS hits
    }}"""

    def _start(self) -> str:
        return f"""\
    {self.database.call("exact, hits")}
      UNWIND [node IN exact | {{n: node, s: 1.0}}] + hits AS hit
      WITH hit
      WITH hit.n AS seed, max(hit.s) AS score
      WHERE score > 0
      RETURN collect({{n: seed, s: score}}) AS seeds, max(score) AS highest
    }}
    WITH missing, [x IN seeds | {{n: x.n, r: x.s / highest, trail: [x.n]}}] AS state0"""

    def _spread(self) -> str:
        steps = "\n".join(self._step(step) for step in range(self.propagation.steps))
        return f"{self.database.call('state0')}\n{steps}\n  RETURN state{self.propagation.steps} AS touched_nodes\n}}"

    def _step(self, step: int) -> str:
        # A neighbour counts once, or once for each relationship.
        ends = "DISTINCT reached" if self.propagation.semantics == "set" else "reached"
        condition = f" AND reached.{self.names['embedding']} IS NOT NULL" if self._gated else ""
        condition += f" AND NOT coalesce(reached.{self.names['type']}, '') IN $no_walk" if self.propagation.exclude_types else ""
        condition += _holds(self.traversal_filter, "reached")
        gate = f"most * {self._cosine('n.' + self.names['embedding'], '$question')}" if self._gated else "most"
        return f"""\
      // Step {step + 1}: equation 1 for every neighbour of a node above the threshold, then equation 2.
      UNWIND state{step} AS s
      WITH s.n AS source, s.r AS level, s.trail AS trail
      OPTIONAL MATCH (source)-[{self.names["edge"]}]-(reached:{self.names["label"]})
      WHERE level > $threshold{condition}
      WITH source, level, trail, collect({ends}) AS ends
      UNWIND [{{n: source, own: level, trail: trail}}]
           + [x IN ends | {{n: x, given: {{r: level, position: source.{self.names["position"]}, trail: trail}}}}] AS row
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

    def _ranked(self) -> str:
        return f"""\
    {self.database.call("touched_nodes")}
      UNWIND touched_nodes AS s
      WITH s, s.r AS r, s.n.{self.names["position"]} AS position, s.n.{self.names["id"]} AS id
      WITH s, r, position, id
      ORDER BY r DESC, position, id
      RETURN collect(s) AS state
    }}"""

    def _chains(self, search: ChainSearch) -> str:
        walkable, whole = self.traversal_filter, search.dedupe == "before_limit"
        # Parallel relationships make separate chains only if each counts towards the limit.
        grouping = "" if search.semantics == "rows" and not whole else "\n  WITH pair.i AS i, pair.j AS j, collect(pair)[0] AS pair"
        best = (
            "[k IN range(0, size(r) - 1) | reduce(m = -1e300, x IN adjacent[k] | "
            "CASE WHEN r[x.j] + b{j}[x.j] > m THEN r[x.j] + b{j}[x.j] ELSE m END)]"
        )
        lengths = range(1, search.length + 1)
        bounds = "\n".join(
            f"WITH missing, state, r, adjacent, {''.join(f'b{h}, ' for h in range(j + 1))}{best.format(j=j)} AS b{j + 1}"
            for j in range(search.length - 1)
        )
        # If a filter says which nodes may be visited, neighbours and chains record whether the neighbour and the start may be.
        near = far = start = one_way = ""
        if walkable is not None:
            near, far, start = f"open: {walkable.on('near')}, ", "open: there.open, ", f", open: {walkable.on('state[k].n')}"
        # Ties: the shorter chain, the lower rows, the earlier of parallel relationships.
        order = ["weight DESC", "size(places)"]
        order += [f"places[{k}]" for k in range(search.length + 1)] + [f"c.e[{k}].position" for k in range(search.length)]
        levels = "\n".join(self._level(search, length) for length in lengths)
        chains = [f"c{length}[0..$width]" for length in lengths]
        if whole:
            # A shorter chain that can be extended is part of its extension.
            condition = "" if walkable is None else " OR NOT (x.open OR c.open)"
            ended = f"[c IN {{}} WHERE all(x IN adjacent[c.p[-1]] WHERE x.j IN c.p{condition})]"
            chains = [ended.format(chain) for chain in chains[:-1]] + chains[-1:]
            # A chain between two seeds is kept only in the direction that starts at the lower row, if both directions exist.
            both = "" if walkable is None else " AND c.open"
            one_way = f"\n      WHERE NOT (size(last.trail) = 1 AND places[-1] < places[0]{both})"
        return f"""\
    // Chains: relationships whose two ends were touched, as lists of neighbours of each touched node.
    {self.database.call("state")}
      UNWIND range(0, size(state) - 1) AS i
      WITH i, state[i].n AS near
      MATCH (near)-[e{self.names["edge"]}]-(far:{self.names["label"]})
      WITH e, {{i: i, {near}forward: startNode(e) = near}} AS end
      WITH e, collect(DISTINCT end) AS ends
      WHERE size(ends) = 2
      UNWIND [[0, 1], [1, 0]] AS o
      WITH ends[o[0]] AS here, ends[o[1]] AS there, e
      RETURN collect({{i: here.i, j: there.i, {far}forward: here.forward,
                      relation: {self._relation()}, position: e.{self.names["position"]}}}) AS pairs
    }}
    {self.database.call("state, pairs")}
      UNWIND [k IN range(0, size(state) - 1) | {{i: k}}] + pairs AS pair
      WITH pair
      WITH pair
      ORDER BY pair.i, pair.j, pair.position, pair.relation{grouping}
      WITH pair.i AS i, collect(CASE WHEN pair.j IS NULL THEN null ELSE pair END) AS out
      ORDER BY i
      RETURN collect(out) AS adjacent
    }}
    // b1, b2, ...: the most that one, two, ... further nodes can add to a chain.
    WITH missing, state, [s IN state | s.r] AS r, adjacent
    WITH missing, state, r, adjacent, [k IN range(0, size(r) - 1) | 0.0] AS b0
    {bounds}
    WITH missing, state, r, adjacent, [{", ".join(f"b{length - 1}" for length in lengths)}] AS bounds, [] AS means0,
         [k IN range(0, size(r) - 1) WHERE size(state[k].trail) = 1 | {{p: [k], e: [], s: r[k]{start}}}] AS c0
    {levels}
    {self.database.call("state, adjacent, " + ", ".join(f"c{length}" for length in lengths))}
      UNWIND {" + ".join(chains)} AS c
      WITH c, round(1e9 * c.s / size(c.p)) / 1e9 AS weight, state[c.p[-1]] AS last,
           [i IN c.p | coalesce(state[i].n.{self.names["position"]}, i)] AS places{one_way}
      WITH c, weight, places
      ORDER BY {", ".join(order)}
      LIMIT $chains
      RETURN collect({{p: c.p, steps: c.e, weight: weight}}) AS best_chains
    }}"""

    def _level(self, search: ChainSearch, length: int) -> str:
        """Return the step from chains to those one edge longer, of `length` edges: the best by what they can become."""
        rest = search.length - length
        bound = (
            f"reduce(m = -1e300, h IN range(0, {rest}) | CASE WHEN (s + bounds[h][j]) / ({length + 1} + h) > m "
            f"THEN (s + bounds[h][j]) / ({length + 1} + h) ELSE m END)"
        )
        # Prefixes that cannot reach the worst of the best chains are dropped; with before_limit, no chain is known to be whole yet.
        has_floor = search.dedupe == "after_limit"
        floor = "\n  WHERE size(means) < $chains OR bound >= means[-1] * (1 - 1e-9)" if has_floor else ""
        condition, start = (" AND x.open", ", open: c.open") if self.traversal_filter is not None else ("", "")
        text = f"""\
    {self.database.call(f"r, adjacent, bounds, means{length - 1}, c{length - 1}")}
      WITH r, adjacent, bounds, means{length - 1} AS means, c{length - 1} AS shorter
      UNWIND shorter[0..$width] AS c
      UNWIND adjacent[c.p[-1]] AS x
      WITH r, bounds, means, c, x
      WHERE NOT x.j IN c.p{condition}
      WITH bounds, means, c, x, x.j AS j, c.s + r[x.j] AS s
      WITH means, c, x, j, s, {bound} AS bound{floor}
      WITH c, x, j, s, bound
      ORDER BY bound DESC
      LIMIT $width + 1
      RETURN collect({{p: c.p + [j], e: c.e + [x], s: s, bound: bound{start}}}) AS c{length}
    }}"""
        if not has_floor or not rest:
            return text + f"\nWITH *, [] AS means{length}"
        return f"""\
    {text}
    {self.database.call(f"means{length - 1}, c{length}")}
      UNWIND means{length - 1} + [c IN c{length} | c.s / {length + 1}] AS mean
      WITH mean
      ORDER BY mean DESC
      LIMIT $chains
      RETURN collect(mean) AS means{length}
    }}"""

    def _relation(self) -> str:
        return f"coalesce(e.{self.names['relation']}, type(e))"

    def _best(self) -> str:
        nodes = f"[s IN state WHERE {self.readable.on('s.n')}{_holds(self.filter, 's.n')}]"
        return f"WITH *, {nodes}[0..$k] AS best"

    def _passages(self) -> str:
        condition = f" AND passage.{self.names['embedding']} IS NOT NULL" if self._gated else ""
        condition += _holds(self.traversal_filter, "passage") + _holds(self.filter, "passage") + _holds(self.readable, "passage")
        gate = f" * {self._cosine('passage.' + self.names['embedding'], '$question')}" if self._gated else ""
        return f"""\
    // Passages: one more step, from all touched nodes, without decay and threshold.
    {self.database.call("state")}
      UNWIND state AS s
      WITH s.n AS giver, s.r AS level, s.trail AS trail
      MATCH (giver)-[{self.names["edge"]}]-(passage:{self.names["label"]})
      WHERE passage.{self.names["type"]} IN $passage_types{condition}
      WITH DISTINCT passage, giver, level, trail
      WITH passage, collect({{r: level, position: giver.{self.names["position"]}, trail: trail}}) AS given
      WITH passage, given, reduce(total = 0.0, x IN given | total + x.r){gate} AS gathered
      WHERE gathered > 0
      WITH passage, gathered, {_LARGEST}.trail + [passage] AS way
      ORDER BY gathered DESC, passage.{self.names["position"]}, passage.{self.names["id"]}
      LIMIT $k
      RETURN collect({{n: passage, r: gathered, trail: way}}) AS best
    }}"""

    def _result(self) -> str:
        fields = ", ".join(f"{key}: s.n.{self.names[key]}" for key in ("id", "name", "text", "type", "metadata"))
        fields += f", similarity: {self._similarity('s.n')}"
        chains = ""
        if self.chains is not None:
            bounds = ", ".join(f"c{j + 1}[$width].bound" for j in range(self.chains.length))
            condition = f"all(i IN c.p WHERE {self.filter.on('state[i].n')})" if self.filter is not None else "true"
            node = f"{{id: state[i].n.{self.names['id']}, name: {self._visible_name('state[i].n')}"
            node += f", similarity: {self._similarity('state[i].n')}}}"
            chains = f""", [{bounds}] AS cut,
           [c IN best_chains | {{weight: c.weight, steps: c.steps, returned: {condition}, nodes: [i IN c.p | {node}]}}] AS chains"""
        return f"""\
    // The relationships between the nodes of the paths.
    {self.database.call("best")}
      UNWIND best AS s
      UNWIND range(1, size(s.trail) - 1) AS i
      WITH DISTINCT s.trail[i - 1] AS near, s.trail[i] AS far
      MATCH (near)-[e{self.names["edge"]}]-(far)
      RETURN collect({{near: near.{self.names["id"]}, far: far.{self.names["id"]}, forward: startNode(e) = near,
                      relation: {self._relation()}, position: e.{self.names["position"]}}}) AS links
    }}
    RETURN missing, links{chains}, size(state) AS touched, size(state) > 0 OR EXISTS {{ MATCH (:{self.names["label"]}) }} AS filled,
           [s IN best | {{r: s.r, trail: [n IN s.trail | n.{self.names["id"]}],
                             titles: [n IN s.trail | {self._visible_name("n")}], {fields}}}] AS found"""

    def _similarity(self, node: str) -> str:
        vector = f"{node}.{self.names['embedding']}"
        return f"CASE WHEN $question IS NULL OR {vector} IS NULL THEN null ELSE {self._cosine(vector, '$question')} END"

    def _visible_name(self, node: str) -> str:
        # Names of nodes that may not be returned are not shown on the paths of others.
        name = f"{node}.{self.names['name']}"
        return name if self.filter is None else f"CASE WHEN {self.filter.on(node)} THEN {name} ELSE '' END"


def _holds(predicate: Predicate | None, node: str) -> str:
    """Return a filter on the node as a further condition."""
    return f" AND {predicate.on(node)}" if predicate is not None else ""
