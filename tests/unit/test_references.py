"""References by number in a text: each form of each language, worked out by hand, and what only looks like one."""

import pytest

from graph_retrievers.construction.references import Reference, references

SHORT = {"article": "A", "paragraph": "p", "point": "n", "letter": "l", "sentence": "s", "": "", "annex": "X", "chapter": "C"}
SHORT |= {"section": "S", "table": "T", "figure": "F", "part": "P", "§": "§", "double letter": "d"}


def written(reference: Reference) -> str:
    """Write a reference in short: "A6/1/na" for Article 6(1), point (a)."""
    steps = "/".join(f"{SHORT[kind]}{number}" for kind, number in reference.steps)
    document = reference.document if isinstance(reference.document, str) else ":".join(reference.document or ())
    named = {"named": f"@{document}", "other": "@?", "own": "@own", "": ""}[reference.scope]
    return f"{steps}{'..' + reference.last if reference.last else ''}{named}"


def read(text: str) -> list[str]:
    return [written(reference) for reference in references(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # Units, their parts, lists and ranges.
        ("see Article 6", ["A6"]),
        ("see Article 6(1)", ["A6/1"]),
        ("see Article 6 (1)(a)", ["A6/1/a"]),
        ("Article 6(1), point (a), applies", ["A6/1/na"]),
        ("Article 6(1), points (a) and (b), apply", ["A6/1/na", "A6/1/nb"]),
        ("Article 6(1) and (2)", ["A6/1", "A6/2"]),
        ("Article 6(1)(a), (b) and (c)", ["A6/1/a", "A6/1/b", "A6/1/c"]),
        ("Articles 13 to 15", ["A13..15"]),
        ("Articles 13\u201315", ["A13..15"]),
        ("Articles 5, 6, 7 and 9", ["A5", "A6", "A7", "A9"]),
        ("Articles 8, 11, 25 to 39 and 42", ["A8", "A11", "A25..39", "A42"]),
        ("Articles 13(1) and 14(2)", ["A13/1", "A14/2"]),
        ("Article 14(1) to (4)", ["A14/1..4"]),
        ("point (a) of Article 6(1)", ["A6/1/na"]),
        ("points (a) to (h) and (j) of Article 58(2)", ["A58/2/na..h", "A58/2/nj"]),
        ("point (a) of the first subparagraph of Article 6(1)", ["A6/1/na"]),
        ("Article 6(1), first subparagraph, point (a)", ["A6/1/na"]),
        ("Annex III, point 1(a)", ["XIII/n1/a"]),
        ("points 2 to 8 of Annex III", ["XIII/n2..8"]),
        ("point 1, 6 or 7 of Annex III", ["XIII/n1", "XIII/n6", "XIII/n7"]),
        ("Annexes I and II", ["XI", "XII"]),
        ("Chapter III, Section 2", ["CIII/S2"]),
        ("Sections 2 and 3 of Chapter V", ["CV/S2", "CV/S3"]),
        ("Section A of Annex I", ["XI/SA"]),
        ("Section 4.2 and Table 2-1, Fig. A.3", ["S4.2", "T2-1", "FA.3"]),
        ("Article 5 or Article 9", ["A5", "A9"]),
        ("Article 17a", ["A17a"]),
        # Relative to the place.
        ("paragraph 2", ["p2"]),
        ("paragraphs 1 and 2 of this Article", ["p1", "p2"]),
        ("paragraph 3, second subparagraph, of this Article", ["p3"]),
        ("points (a) and (b) of paragraph 1", ["p1/na", "p1/nb"]),
        ("this Article applies", []),
        ("Section 2 of this Chapter", ["S2"]),
        ("Article 6 of this Regulation", ["A6@own"]),
        # Other documents.
        ("Article 6 of Regulation (EU) 2016/679", ["A6@act:2016/679"]),
        ("Article 2, points (1) and (2), of Council Directive 91/271/EEC", ["A2/n1@act:91/271", "A2/n2@act:91/271"]),
        ("Annex I to Regulation (EC) No 725/2004", ["XI@act:725/2004"]),
        ("Article 5 and Article 6 of Regulation (EU) 2016/679", ["A5@act:2016/679", "A6@act:2016/679"]),
        ("Article 5 of this Regulation and Article 6 of Directive 2002/58/EC", ["A5@own", "A6@act:2002/58"]),
        ("Article 2 of the Annex to Recommendation 2003/361/EC", ["A2@act:2003/361"]),
        ("Article 5 of Directive 2002/58/EC. Article 7(1) of that Directive", ["A5@act:2002/58", "A7/1@act:2002/58"]),
        ("Article 5 of Directive 2002/58/EC, paragraph 2 of that Article", ["A5@act:2002/58", "A5/p2@act:2002/58"]),
        ("Article 5(1) and points (a) and (b) thereof", ["A5/1", "A5/1/na", "A5/1/nb"]),
        ("Article 5(1) and Article 6 thereof", ["A5/1", "A6"]),
        ("Articles 6(1) to 9", ["A6/1", "A9"]),
        ("Article 6 and (2)", ["A6", "A6/2"]),
        ("point 1(a) and (b) of Annex III", ["XIII/n1/a", "XIII/n1/b"]),
        ("PEP 0008", ["@pep:8"]),
        ("Article 5 of that Directive", ["A5@?"]),
        ("Article 5 of Directive 2002/58/EC. Article 7 that Member States apply", ["A5@act:2002/58", "A7"]),
        (
            "Article 5 of Directive 2002/58/EC. Article 9 applies. Article 7 of that Directive",
            ["A5@act:2002/58", "A9", "A7@act:2002/58"],
        ),
        ("Article 5(1)(a). Point (b) of that paragraph", ["A5/1/a", "A5/1/nb"]),
        ("Chapter II. Section 2 of that Chapter and Section 3 of Directive 2002/58/EC", ["CII", "CII/S2", "S3@act:2002/58"]),
        ("Annex II Regulation (EU) 2016/679", ["XII@act:2016/679"]),
        ("Regulations (EU) 2016/679 and (EU) 2018/1725", ["@act:2016/679", "@act:2018/1725"]),
        ("Article 16 TFEU", ["A16@?"]),
        ("Chapter 2 of Title V of the TEU", ["title"]),
        ("Article 8 of the Charter", ["A8@?"]),
        ("Section 5 of the Data Protection Act", ["S5@?"]),
        ("RFC 2119, section 4.2 and PEP 8", ["S4.2@rfc:2119", "@pep:8"]),
        ("section 4.2 of [RFC2119]", ["S4.2@rfc:2119"]),
        ("item 4 of the last minutes and item 2", ["n4@?", "n2"]),
        ("paragraph 2 of the preceding Article", ["p2@?"]),
        ("point (a) of the last subparagraph of Article 6(1)", ["A6/1/na"]),
        ("Section 3.2 and Article 28 GDPR", ["S3.2", "A28@?"]),
        ("Section 3.2 and Section 4.1 of RFC 2119", ["S3.2@rfc:2119", "S4.1@rfc:2119"]),
        ("See Section 2.1 and RFC 2119", ["S2.1", "@rfc:2119"]),
        ("Article 5(1), and Regulation (EU) 2016/679", ["A5/1", "@act:2016/679"]),
        ("ISO 27001:2022 and ISO/IEC 17065", ["@iso:27001", "@iec:17065"]),
        # Lines that are set in.
        ("RFC 2119, Section\n   4.2", ["S4.2@rfc:2119"]),
        ("Sections 4 and\n   5", ["S4", "S5"]),
        # What only looks like one.
        ("paragraph 1 and 30 days later", ["p1"]),
        ("Article 5, 12 members", ["A5"]),
        ("Article 5, 6. The next", ["A5"]),
        ("the 70's. 1,001 of them", []),
        ("the article of 12 May, a part of it", []),
        ("In part 2 to 3 % of it", ["P2"]),
        ("an article I read", []),
        ("Section1 = Section2", []),
    ],
)
def test_english(text, found):
    if found == ["title"]:
        (reference,) = references(text)
        assert reference.steps == (("title", "V"), ("chapter", "2")) and reference.scope == "other"
    elif text.startswith("an article"):
        # "I" is a number, too; nothing carries it in such a text.
        assert read(text) == ["AI"]
    else:
        assert read(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nach § 14", ["§14"]),
        ("nach § 14a Absatz 2", ["§14a/p2"]),
        ("nach § 14 Abs. 2 Satz 1 Nr. 3 Buchstabe a BGB", ["§14/p2/s1/n3/la@?"]),
        ("Art. 6 Abs. 1 lit. a DSGVO", ["A6/p1/la@?"]),
        ("Artikel 6 Absatz 1 Buchstabe a", ["A6/p1/la"]),
        ("§§ 5 bis 7", ["§5..7"]),
        ("§§ 5, 6 und 8", ["§5", "§6", "§8"]),
        ("§§ 5, 6", ["§5", "§6"]),
        ("§ 3 Abs. 1 oder 2", ["§3/p1", "§3/p2"]),
        ("§ 3 Absatz 1 Nummer 1 bis 3", ["§3/p1/n1..3"]),
        ("§ 3 Abs. 1 und Abs. 2 Nr. 3", ["§3/p1", "§3/p2/n3"]),
        ("§§ 5 Abs. 1, 6 Abs. 2", ["§5/p1", "§6/p2"]),
        ("Art. 6 Abs. 1 Verordnung (EU) 2016/679", ["A6/p1@act:2016/679"]),
        ("Buch 12/2008", ["@act:12/2008"]),
        ("§§ 5 Abs. 1 und 6 Abs. 2", ["§5/p1", "§6/p2"]),
        (f"§§ 5 und 6 gelten. {'Es ist so. ' * 10}Absatz 1, 8 Nr. 2", ["§5", "§6", "p1", "n2"]),
        ("§ 3 Abs. 1, Abs. 2 und Abs. 3", ["§3/p1", "§3/p2", "§3/p3"]),
        ("Anlage 2 Nummer 3", ["X2/n3"]),
        ("Anhang III", ["XIII"]),
        ("Abschnitt 2", ["S2"]),
        ("Absatz 2 Satz 1", ["p2/s1"]),
        ("Absätze 1 und 2", ["p1", "p2"]),
        ("§ 3 Abs. 1 S. 2 BGB", ["§3/p1/s2@?"]),
        ("§ 9 Nr. 1 Buchst. a und b sowie Nr. 2", ["§9/n1/la", "§9/n1/lb", "§9/n2"]),
        ("§ 9 Nr. 1 Buchstabe b Doppelbuchstabe aa", ["§9/n1/lb/daa"]),
        ("§ 3 Abs. 1 i. V. m. Abs. 2", ["§3/p1", "§3/p2"]),
        ("§ 3 Abs. 1 in Verbindung mit § 4", ["§3/p1", "§4"]),
        ("§§ 823 ff. BGB", ["§823@?"]),
        ("§ 823 f. BGB", ["§823@?"]),
        # The law is named behind the last one, or before.
        ("§ 3 und § 4 des Bundesdatenschutzgesetzes", ["§3@?", "§4@?"]),
        ("§§ 5, 6 und 8 der Zivilprozessordnung", ["§5@?", "§6@?", "§8@?"]),
        ("§§ 5 und 6 sowie Art. 6 DSGVO", ["§5", "§6", "A6@?"]),
        ("§ 8 des Bürgerlichen Gesetzbuchs", ["§8@?"]),
        ("§ 3 dieses Gesetzes", ["§3@own"]),
        ("Artikel 6 der Verordnung (EU) 2016/679", ["A6@act:2016/679"]),
        # A sign and its number on two lines; numbers of lists and amounts.
        ("nach §\n14", ["§14"]),
        ("Absatz 2, 6. Höhe", ["p2"]),
        ("Absatz 1 und 2 Monate", ["p1"]),
        ("§ 5 der Behörde", ["§5"]),
    ],
)
def test_german(text, found):
    assert read(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("l'article 5, paragraphe 1, point a), du règlement (UE) 2016/679", ["A5/p1/na@act:2016/679"]),
        ("les articles 13 à 15", ["A13..15"]),
        ("chapitre III", ["CIII"]),
        ("au point a) de l'article 5 et au paragraphe 2 de l’article 6", ["A5/na", "A6/p2"]),
        ("l'article 4 de la loi n° 78-17", ["A4@?"]),
        ("l'article 1240 du code civil et l'article 2 du décret du 1er mars", ["A1240@?", "A2@?"]),
        ("l'article 4 de la présente loi", ["A4@own"]),
        ("l'article 4 de la loi est applicable", ["A4"]),
        ("제17조제2항제3호 및 제5조", ["A17/p2/n3", "A5"]),
        ("제17조의2", ["A17-2"]),
        ("제1조부터 제3조까지", ["A1..3"]),
        ("제1항 내지 제3항", ["p1..3"]),
        ("별표 1에 따라 표 2를", ["X1", "T2"]),
        # The document is named in front.
        ("「베틀법」 제17조, 제18조 및 제20조", ["A17@?", "A18@?", "A20@?"]),
        ("「베틀법」 제17조와 제18조", ["A17@?", "A18@?"]),
        ("「베틀법」 제15조제1항과 이 법 제3조", ["A15/p1@?", "A3@own"]),
        ("「베틀법」 제15조에 따르고, 제2조의 경우 같은 법 제3조", ["A15@?", "A2", "A3@?"]),
        ("같은 법 제2조", ["A2@?"]),
        ("제3조제1항 및 같은 조 제2항", ["A3/p1", "A3/p2"]),
        ("이 조 제2항", ["p2"]),
    ],
)
def test_french_and_korean(text, found):
    assert read(text) == found


def test_a_known_document_is_named_behind_a_reference():
    def name_at(text, start):
        return next((name for name in ("GDPR", "AI Act") if text.startswith(name, start)), None)

    texts = [
        "Article 6 GDPR",
        "Article 6(1) of the GDPR",
        "Articles 6 and 7 of the AI Act",
        "Article 6 and Article 7 GDPR",
        "Article 6 AI",
        "「GDPR」 제6조",
    ]
    assert [[written(found) for found in references(text, name_at)] for text in texts] == [
        ["A6@GDPR"],
        ["A6/1@GDPR"],
        ["A6@AI Act", "A7@AI Act"],
        ["A6@GDPR", "A7@GDPR"],
        ["A6"],
        ["A6@GDPR"],
    ]


def test_places_of_references():
    text = "As said in Article 6(1), point (a), of it."
    (found,) = references(text)
    assert text[found.start : found.end] == "Article 6(1), point (a)"


@pytest.mark.slow
def test_long_runs_take_linear_time():
    # A quadratic reader would take minutes.
    for text in (
        "Article 1, " * 20_000,
        "(a)" * 50_000,
        "Articles " + "1, " * 50_000,
        "§" * 100_000,
        "of the " * 50_000,
        "1/1 " * 50_000,
        "「베틀법」 제1조부터 " * 10_000,
        "제1조" * 30_000,
        "Article 1 thereof, " * 20_000,
        "Article 1" + "(a)" * 20_000 + ", points (a), (b) thereof" * 10_000,
    ):
        references(text)


def test_lists_of_lists_are_not_all_combinations():
    numbers = f"{', '.join(map(str, range(1, 60)))} and 60"
    units = ("points", "paragraphs", "Articles", "Sections", "Chapters", "Parts")
    assert 60 <= len(references(" of ".join(f"{unit} {numbers}" for unit in units))) <= 1_000
    assert len(references("points 1, 2 and 3 of paragraphs 1, 2 and 3 of Articles 1 to 9")) == 9
