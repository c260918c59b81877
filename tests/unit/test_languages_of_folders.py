"""Folders of ten pages in German, French and Korean: their language, references by number, names of pages, and words."""

import pytest

from graph_retrievers import GraphIndex, Retriever
from graph_retrievers.construction import NumberedReferences, TitleMentions, build_edges
from tests.languages import FRENCH, GERMAN, KOREAN
from tests.pages import read

ORDER, RULES, LIBRARY = "benutzungsordnung.md", "règlement.md", "도서관 운영 규정.md"
# Chunks: those of an order of several sections begin with the sections named.
FOLDERS = {
    "de": (
        GERMAN,
        {ORDER: "§ 1", f"{ORDER}#-3-ausleihe": "(1) Medien werden", f"{ORDER}#benutzungsordnung": "§ 5"},
        {
            (ORDER, f"{ORDER}#benutzungsordnung"),
            (f"{ORDER}#-4-rückgabe", f"{ORDER}#-3-ausleihe"),
            *((f"{ORDER}#benutzungsordnung", target) for target in (ORDER, f"{ORDER}#-3-ausleihe", f"{ORDER}#-4-rückgabe")),
            ("gebührensatzung.md", f"{ORDER}#-4-rückgabe"),
            ("bücherbus.md", f"{ORDER}#-3-ausleihe"),
        },
        (6, 1, 0),
        {
            (f"{ORDER}#-4-rückgabe", "gebührensatzung.md"),
            ("gebührensatzung.md", ORDER),
            ("bücherbus.md", ORDER),
            ("kinderbibliothek.md", "gebührensatzung.md"),
            ("fernleihe.md", "lesesaal.md"),
            ("geschichte.md", "lesesaal.md"),
            ("geschichte.md", "elfriede-krüger.md"),
        },
        {
            "Verlängerung der Ausleihe": f"{ORDER}#-3-ausleihe",
            "verspätete Rückgaben": "gebührensatzung.md",
            "ein Märchen": "elfriede-krüger.md",
            "Bestellungen von Büchern": "fernleihe.md",
        },
    ),
    "fr": (
        FRENCH,
        {RULES: "Article 1", f"{RULES}#règlement-intérieur": "Article 3"},
        {
            (RULES, f"{RULES}#règlement-intérieur"),
            (f"{RULES}#règlement-intérieur", RULES),
            ("charte.md#article-3-transport", RULES),
            ("horaires.md", f"{RULES}#règlement-intérieur"),
        },
        (5, 0, 0),
        {
            ("tapisseries.md", "aubusson.md"),
            ("jeanne-lurçat.md", "atelier.md"),
            ("donateurs.md", "jeanne-lurçat.md"),
        },
        {
            "assurances des œuvres": "charte.md",
            "entrée gratuite des enfants": RULES,
            "les groupes": f"{RULES}#règlement-intérieur",
            "réparations": "atelier.md",
        },
    ),
    "ko": (
        KOREAN,
        {LIBRARY: "제1조", f"{LIBRARY}#도서관-운영-규정": "② 어린이는"},
        {
            (f"{LIBRARY}#제4조반납", f"{LIBRARY}#도서관-운영-규정"),
            *((f"{LIBRARY}#제5조출입-제한", target) for target in (LIBRARY, f"{LIBRARY}#도서관-운영-규정", f"{LIBRARY}#제4조반납")),
            ("연체료 규칙.md#제2조면제", f"{LIBRARY}#도서관-운영-규정"),
            ("연체료 규칙.md#제3조납부", "연체료 규칙.md"),
            ("이동 도서관.md", f"{LIBRARY}#도서관-운영-규정"),
        },
        (6, 1, 0),
        {
            ("연체료 규칙.md#제2조면제", LIBRARY),
            ("이동 도서관.md", LIBRARY),
            ("상호대차.md", "열람실.md"),
            ("역사.md", "김영희.md"),
        },
        {
            "연체료 면제": "연체료 규칙.md#제2조면제",
            "음료": "열람실.md",
            "마을 버스": "이동 도서관.md",
            "동화": "어린이실.md",
        },
    ),
}


@pytest.mark.parametrize("language", FOLDERS)
def test_a_folder_in_a_language(tmp_path, language):
    pages, begin, refers, counts, mentions, questions = FOLDERS[language]
    assert len(pages) == 10
    nodes = read(tmp_path, pages, max_tokens=60)
    texts = {node.id: node.text for node in nodes}
    assert all(texts[name].startswith(text) for name, text in begin.items()), {name: texts[name][:30] for name in begin}
    assert {edge[:2] for edge in build_edges(nodes, NumberedReferences())} == refers
    told = NumberedReferences().describe(nodes)
    assert (told.found, told.outside, told.unresolved) == counts
    assert {edge[:2] for edge in build_edges(nodes, TitleMentions())} == mentions
    index = GraphIndex.from_documents(nodes, edges=[NumberedReferences(), TitleMentions()])
    assert index.signals["bm25"].language == language
    assert {question: Retriever(index, k=1).retrieve(question)[0].id for question in questions} == questions
