"""How languages and houses write numbers: words of what carries a number, and of what refers to one. Data only.

To add a language or a house style, add a :class:`NumberStyle` to :data:`STYLES`. All styles are read at once, because texts cite
in several languages, so a word must mean the same in each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HEADED = ("document", "annex", "book", "part", "title", "chapter", "section", "subsection", "article", "§")
"""Kinds of units whose number is in a heading, from outside to inside."""

CAPTIONED = ("table", "figure")
"""Kinds of units whose number is in a caption."""

INNER = ("recital", "paragraph", "subparagraph", "sentence", "point", "letter", "double letter")
"""Kinds of parts whose number is where a line begins, from outside to inside: "2.", "(2)", "(a)", "a)"."""


@dataclass(frozen=True)
class NumberStyle:
    """The words of one language or house; several in a string are separated by spaces, and case does not count.

    Attributes
    ----------
    units : mapping of str to str
        The words of each kind in :data:`HEADED`, :data:`CAPTIONED` and :data:`INNER`, in all their forms.
    plurals : str
        Those after which items may be separated by commas alone: "§§ 5, 6".
    documents : str
        Words before the number of a document: "RFC 2119", "pep-0008.md".
    divided : str
        Those of them behind which a section may have no word: "ISO 9001:2015, 7.5".
    cites : str
        What is before the number of a section without a word: "see 7.5"; separated by "|".
    emphasis : str
        Words in capitals that are not names: "as in Section 2 MUST".
    around : mapping of str to (mapping of str to str)
        Words before a number whose kind follows behind it, with these kinds: Korean "제17조".
    short : mapping of str to str
        Words with their kinds that are read only right behind another number, since they are too short: "Abs. 1 S. 2".
    ands, ranges, of, the, this, that : str
        Words between the items of a list, and of a range; before what contains a part, and behind those; before the unit around the
        place, and before the one that was named before.
    other : str
        Words before one that is neither: "of the last minutes".
    elided : str
        Beginnings of words that are written before what contains a part: French "de l'article".
    thereof : str
        Words behind a reference that mean what was named before.
    joins, following : str
        What joins two references to one, besides `ands`, and what follows a number without changing it; separated by "|".
    ordinals, passages : str
        Words that count passages without numbers, and those passages: "the second subparagraph of".
    acts : str
        Words that begin or end the name of a document, and by their ending stand for it: "Regulation", "Bundesdatenschutzgesetz".
    small, after_small : str
        Words that begin the name of a document although they are written small, and beginnings of what follows then: "loi du".
    amends : str
        Beginnings of what says that the following is the text of another document; separated by "|".
    minutes : str
        Words for documents that are named by their dates: "item 2.1 of the minutes of 5 March".
    months : str
        The names of the months, from the first to the twelfth.
    measures : str
        Words behind a number that does not belong to a list: "paragraph 1 and 30 days".
    """

    units: Mapping[str, str] = field(default_factory=dict)
    short: Mapping[str, str] = field(default_factory=dict)
    plurals: str = ""
    documents: str = ""
    divided: str = ""
    cites: str = ""
    emphasis: str = ""
    around: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ands: str = ""
    ranges: str = ""
    of: str = ""
    the: str = ""
    elided: str = ""
    this: str = ""
    that: str = ""
    other: str = ""
    thereof: str = ""
    joins: str = ""
    following: str = ""
    ordinals: str = ""
    passages: str = ""
    acts: str = ""
    small: str = ""
    after_small: str = ""
    amends: str = ""
    minutes: str = ""
    months: str = ""
    measures: str = ""


ENGLISH = NumberStyle(
    units={
        "annex": "annex annexes appendix appendices schedule",
        "book": "book books",
        "part": "part parts",
        "title": "title titles",
        "chapter": "chapter chapters chap.",
        "section": "section sections sect. sec. secs. clause clauses",
        "subsection": "subsection subsections",
        "article": "article articles art art. arts. rule rules",
        "§": "§ §§",
        "table": "table tables",
        "figure": "figure figures fig. figs.",
        "recital": "recital recitals",
        "paragraph": "paragraph paragraphs para. paras.",
        "subparagraph": "subparagraph subparagraphs",
        "sentence": "sentence sentences",
        "point": "point points item items",
        "letter": "letter letters lit.",
    },
    plurals="annexes appendices parts titles chapters sections secs. clauses articles arts. rules §§ tables figures figs. recitals "
    "paragraphs paras. points items letters",
    ands="and or and/or",
    ranges="to through until – — -",
    of="of in to under",
    the="the",
    this="this",
    that="that those",
    other="last latest previous preceding former earlier next following",
    thereof="thereof",
    joins="in conjunction with|read together with",
    following="et seq.",
    cites="see|see also|in accordance with|according to|referred to in|required by|described in|specified in|given in|defined in|"
    "set out in|laid down in|subject to",
    emphasis="must shall should may not required recommended optional and or",
    ordinals="first second third fourth fifth sixth seventh last introductory",
    passages="subparagraph subparagraphs sentence sentences indent indents part wording alternative",
    acts="regulation directive decision recommendation treaty charter convention protocol agreement act code law statute "
    "constitution",
    minutes="minutes",
    months="january february march april may june july august september october november december",
    amends="is amended|are amended|is added:|are added:|is inserted:|are inserted:|replaced by the following",
    measures="% percent per-cent days day weeks week months month years year hours hour euro eur million billion",
)

GERMAN = NumberStyle(
    units={
        "annex": "anhang anhangs anhänge anhängen anlage anlagen",
        "book": "buch buches buchs",
        "part": "teil teils teile teilen",
        "title": "titel titels titeln",
        "chapter": "kapitel kapitels kapiteln",
        "section": "abschnitt abschnitts abschnitte abschnitten abschn. ziffer ziffern ziff. ziffn.",
        "subsection": "unterabschnitt unterabschnitts unterabschnitte unterabschnitten",
        "article": "artikel artikels artikeln",
        "table": "tabelle tabellen tab.",
        "figure": "abbildung abbildungen abb. bild",
        "recital": "erwägungsgrund erwägungsgrunds erwägungsgrundes erwägungsgründe erwägungsgründen",
        "paragraph": "absatz absatzes absätze absätzen abs.",
        "subparagraph": "unterabsatz unterabsatzes unterabs. uabs.",
        "sentence": "satz satzes sätze sätzen",
        "point": "nummer nummern nr. nrn. punkt punkte",
        "letter": "buchstabe buchstaben buchst.",
        "double letter": "doppelbuchstabe doppelbuchstaben doppelbuchst.",
    },
    short={"s.": "sentence"},
    plurals="anhänge anhängen anlagen teile teilen kapiteln abschnitte abschnitten artikeln absätze absätzen sätze sätzen nummern "
    "nrn. buchstaben tabellen abbildungen ziffern",
    ands="und oder sowie bzw. beziehungsweise",
    ranges="bis",
    of="des der dem von vom im in zu zur zum",
    this="dieser dieses diesem diese",
    that="jener jenes jenem",
    other="letzten vorigen vorherigen vorhergehenden vorstehenden nächsten folgenden nachfolgenden",
    joins="in Verbindung mit|i. V. m.|i.V.m.",
    following="f.|ff.",
    cites="siehe|vgl.|gemäß|nach",
    ordinals="ersten zweiten dritten vierten letzten erster zweiter dritter",
    passages="unterabsatz unterabsatzes halbsatz hs. halbs. alternative alt. variante var.",
    acts="gesetz gesetzes gesetzbuch gesetzbuchs gesetzbuches ordnung verordnung richtlinie empfehlung vertrag vertrags vertrages "
    "abkommen abkommens satzung konvention übereinkommen übereinkommens beschluss beschlusses buch buches sozialgesetzbuch",
    minutes="protokoll protokolls protokolles niederschrift",
    months="januar februar märz april mai juni juli august september oktober november dezember",
    amends="wie folgt geändert|wird folgender|werden folgende|folgende fassung|angefügt:|eingefügt:",
    measures="tage tagen wochen woche monate monaten monat jahre jahren jahr stunden prozent vom-hundert euro",
)

FRENCH = NumberStyle(
    units={
        "annex": "annexe",
        "part": "partie parties",
        "title": "titre titres",
        "chapter": "chapitre chapitres",
        "table": "tableau tableaux",
        "recital": "considérant considérants",
        "paragraph": "paragraphe paragraphes",
        # Like sentences, these have no numbers in the text.
        "sentence": "alinéa alinéas",
    },
    plurals="annexes chapitres titres paragraphes tableaux",
    ands="et ou",
    ranges="à",
    of="de du des à au aux",
    the="la le les",
    elided="l' l’",
    this="présent présente",
    that="dudit ladite ledit",
    ordinals="premier deuxième troisième",
    passages="alinéa alinéas phrase tiret",
    acts="règlement décision traité charte loi code décret ordonnance arrêté",
    small="règlement loi code décret ordonnance arrêté directive traité",
    after_small="n° no du de d' d’ sur relati portant civil pénal électoral",
    minutes="procès-verbal",
    months="janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    amends="est modifié|sont modifiés|est remplacé|est ajouté",
    measures="jours jour mois ans an heures",
)

KOREAN = NumberStyle(
    units={"annex": "별표", "table": "표", "figure": "그림"},
    around={"제": {"편": "part", "장": "chapter", "절": "section", "조": "article", "항": "paragraph", "호": "point"}},
    ands="및 또는 와 과",
    ranges="부터 내지",
    this="이",
    that="같은",
    acts="법 법률 영 규칙 조례",
)

STANDARDS = NumberStyle(
    documents="pep rfc iso iec en din ieee nist bcp std adr ecma iss itu-t unicode-tr", divided="iso iec en din ieee itu-t"
)

STYLES = (ENGLISH, GERMAN, FRENCH, KOREAN, STANDARDS)
"""All styles that are read."""
