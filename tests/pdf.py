"""PDF files, written for a test."""

from io import BytesIO


def pdf(pages, outline=(), links=(), title="", password=""):
    """Return a PDF; `pages` are lists of lines, `outline` of (title, page, parent, top), `links` of (page, line, goal).

    The first line of a page is at 750, each next one 14 below it, and an empty line is a gap. A goal is an address, a page, or a
    page and a height.
    """
    from pypdf import PdfWriter
    from pypdf.annotations import Link
    from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, Fit, FloatObject, NameObject, NumberObject

    writer = PdfWriter()
    kind = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica", "/Encoding": "/WinAnsiEncoding"}
    font = writer._add_object(DictionaryObject({NameObject(key): NameObject(value) for key, value in kind.items()}))
    for lines in pages:
        page = writer.add_blank_page(612, 792)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        drawn = []
        for place, line in enumerate(lines):
            held = line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
            drawn += [f"BT /F1 11 Tf 50 {750 - 14 * place} Td ({held}) Tj ET"] if line else []
        stream = DecodedStreamObject()
        stream.set_data("\n".join(drawn).encode("cp1252"))
        page[NameObject("/Contents")] = writer._add_object(stream)
    entries = {}
    for name, number, parent, top in outline:
        entries[name] = writer.add_outline_item(
            title=name, page_number=number, parent=entries.get(parent), fit=Fit.xyz(left=0, top=top)
        )
    for number, line, goal in links:
        box = (50, 748 - 14 * line, 200, 760 - 14 * line)
        if isinstance(goal, str):
            writer.add_annotation(number, Link(rect=box, url=goal))
            continue
        page, top = goal if isinstance(goal, tuple) else (goal, None)
        place = [writer.pages[page].indirect_reference, NameObject("/XYZ"), NumberObject(0), FloatObject(top or 0), NumberObject(0)]
        place = place if top else [place[0], NameObject("/Fit")]
        held = {"/Type": NameObject("/Annot"), "/Subtype": NameObject("/Link"), "/Dest": ArrayObject(place)}
        held["/Rect"] = ArrayObject([FloatObject(side) for side in box])
        writer.add_annotation(number, DictionaryObject({NameObject(key): value for key, value in held.items()}))
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    out = BytesIO()
    writer.write(out)
    return out.getvalue()
