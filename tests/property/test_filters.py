"""Filters on random metadata against a literal definition: Python's own values, compared one by one."""

import random
from datetime import UTC, date, datetime, timedelta, timezone

from graph_retrievers.graph import CorpusGraph
from graph_retrievers.graph.filters import filter_mask

DAY = timedelta(days=1)
START = datetime(2023, 12, 31)
ZONES = [None, UTC, timezone(timedelta(hours=1)), timezone(timedelta(hours=-5, minutes=-30))]
OPERATORS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$exists"]
PATHS = ["when", "days", "n", "word", "any", "in.n", "in.when", "in.side.n", "list.n", "dot.ted", "absent", "in.absent"]


def random_date(draw):
    """A day, or a time within three days, in quarters of a day, in any zone or none."""
    if draw.random() < 0.3:
        return START.date() + draw.randrange(3) * DAY
    return (START + draw.randrange(13) * DAY / 4).replace(tzinfo=draw.choice(ZONES))


def written(draw, found):
    """A date as a text, in any form of ISO 8601 that names a day or an instant; all times are full hours."""
    year, week, weekday = found.isocalendar()
    day = draw.choice([found.strftime("%Y-%m-%d"), f"{year}-W{week:02}-{weekday}"])
    if not isinstance(found, datetime):
        return day
    day = day.replace("-", "") if draw.random() < 0.3 else day
    return found.strftime(f"{day}T%H") + draw.choice(["", ":00", "00", ":00:00", ":00:00.000"]) + found.isoformat()[19:]


def random_value(draw, name):
    if name == "any":
        name = draw.choice(["when", "days", "n", "word"])
    return {
        "when": lambda: random_date(draw) if draw.random() < 0.7 else written(draw, random_date(draw)),
        "days": lambda: [random_date(draw) for _ in range(draw.randrange(3))],
        "n": lambda: draw.choice([0, 1, 2.5, True, -1]),
        "word": lambda: draw.choice(["", "loom", "card", "2024", "20240101", "2024-W01"]),
    }[name]()


def random_metadata(draw):
    """Metadata, as a caller gives them; a value may be missing anywhere."""
    made = {name: random_value(draw, name) for name in ("when", "days", "n", "word", "any") if draw.random() < 0.8}
    if draw.random() < 0.8:
        made["in"] = {name: random_value(draw, name) for name in ("n", "when") if draw.random() < 0.8}
        if draw.random() < 0.5:
            made["in"]["side"] = {"n": random_value(draw, "n")}
    if draw.random() < 0.2:
        made["in.n"] = random_value(draw, "n")
    if draw.random() < 0.5:
        made["list"] = [{"n": random_value(draw, "n")} for _ in range(draw.randrange(3))]
    if draw.random() < 0.5:
        made["dot.ted"] = random_value(draw, "word")
    return made


# -- the literal definition -------------------------------------------------------------------------------------------


def read(metadata, path):
    """The value at a path; None if there is none."""
    if path in metadata:
        return metadata[path]
    first, dot, rest = path.partition(".")
    held = metadata.get(first) if dot else None
    if isinstance(held, list):
        found = [value for item in held if (value := read(item, rest)) is not None]
        return found or None
    return read(held, rest) if isinstance(held, dict) else None


def as_date(value):
    """A value that is a date, or a text that is one in ISO form, as given."""
    if isinstance(value, str):
        try:
            return date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value) if len(value) > 10 else None
        except ValueError:
            return None
    return value if isinstance(value, date) else None


def utc(value):
    """The instant of a time, and the start of a day."""
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def sign(value, wanted):
    """-1, 0 or 1 for a value before, at or after what is wanted; None if the two have no order."""
    there, asked = as_date(value), as_date(wanted)
    if there is not None and asked is not None:
        there, whole = utc(there), not isinstance(asked, datetime)
        asked = utc(asked)
        return -1 if there < asked else 0 if there == asked or (whole and there < asked + DAY) else 1
    if isinstance(wanted, date):
        return None
    try:
        # A graph keeps dates as text.
        value = value.isoformat() if isinstance(value, date) else value
        return (value > wanted) - (value < wanted)
    except TypeError:
        return None


def equal(value, wanted):
    if as_date(value) is not None and as_date(wanted) is not None:
        return sign(value, wanted) == 0
    return value == wanted


def holds(metadata, path, operator, wanted):
    value = read(metadata, path)
    if operator in ("$in", "$nin"):
        return any(equal(value, one) for one in wanted) == (operator == "$in")
    if operator in ("$eq", "$ne"):
        return equal(value, wanted) == (operator == "$eq")
    if operator == "$exists":
        return (value is not None) == wanted
    if operator == "$contains":
        if as_date(value) is not None and as_date(wanted) is not None:
            return equal(value, wanted)
        if isinstance(value, (str, date)):
            return isinstance(wanted, str) and wanted in (value if isinstance(value, str) else value.isoformat())
        return isinstance(value, list) and any(equal(item, wanted) for item in value)
    found = sign(value, wanted) if value is not None else None
    return found in {"$gt": [1], "$gte": [0, 1], "$lt": [-1], "$lte": [-1, 0]}[operator]


# -- the comparison ---------------------------------------------------------------------------------------------------


def random_condition(draw, depth=2):
    """A filter, and its literal definition as a function of metadata."""
    kind = draw.random()
    if depth and kind < 0.15:
        condition, test = random_condition(draw, depth - 1)
        return {"$not": condition}, lambda held: not test(held)
    if depth and kind < 0.35:
        word = draw.choice(["$and", "$or"])
        conditions, tests = zip(*(random_condition(draw, depth - 1) for _ in range(draw.randrange(1, 4))), strict=True)
        join = all if word == "$and" else any
        return {word: list(conditions)}, lambda held: join(test(held) for test in tests)
    path, operator = draw.choice(PATHS), draw.choice(OPERATORS)
    # Mostly what may be there.
    like = path.rpartition(".")[2] if draw.random() < 0.8 else "any"
    like = {"ted": "word", "absent": "any"}.get(like, like)
    # A date that is compared with a field without any is refused.
    if like not in ("n", "word") and path.rpartition(".")[2] not in ("when", "days", "any", "absent"):
        like = "n"
    single = "when" if like == "days" else like

    def value():
        found = random_value(draw, single)
        while isinstance(found, list):
            found = random_value(draw, single)
        return written(draw, found) if isinstance(found, date) and draw.random() < 0.5 else found

    wanted = [value() for _ in range(draw.randrange(4))] if operator in ("$in", "$nin") else value()
    if operator == "$exists":
        wanted = draw.random() < 0.5
    asked = wanted if operator == "$eq" and draw.random() < 0.5 else {operator: wanted}
    names = path.split(".")
    # The entry of a mapping is also named inside it; a value there would be a mapping that is equal.
    if isinstance(asked, dict) and len(names) > 1 and draw.random() < 0.5:
        condition = asked
        for name in reversed(names):
            condition = {name: condition}
        return condition, lambda held: holds(held, path, operator, wanted)
    return {path: asked}, lambda held: holds(held, path, operator, wanted)


def test_filters_are_their_literal_definition():
    draw = random.Random(1)
    sizes = set()
    for _ in range(40):
        metadata = [random_metadata(draw) for _ in range(30)]
        graph = CorpusGraph([str(row) for row in range(30)], [""] * 30, metadata=metadata)
        for _ in range(50):
            condition, test = random_condition(draw)
            wanted = [test(held) for held in metadata]
            assert filter_mask(graph, condition).tolist() == wanted, condition
            sizes.add(sum(wanted))
    assert len(sizes) > 25
