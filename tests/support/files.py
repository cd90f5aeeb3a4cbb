"""Small files of each format, with given texts."""

import io
import struct
import zipfile
from collections.abc import Mapping
from xml.sax.saxutils import escape

import olefile

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_P = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
)
_CORE = (
    '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">'
    "<dc:title>The title</dc:title><dc:creator>Ada Author</dc:creator>"
    "<dcterms:created>2024-05-06T07:08:09Z</dcterms:created></cp:coreProperties>"
)
_CUSTOM = (
    '<Properties xmlns="http://schemas.openxmlformats.org/officeDocument/2006/custom-properties" xmlns:vt="vt">'
    '<property name="Project"><vt:lpwstr>Harvest</vt:lpwstr></property></Properties>'
)


def zipped(members: Mapping[str, bytes | str], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return buffer.getvalue()


def docx(*paragraphs: str, more: Mapping[str, bytes | str] | None = None) -> bytes:
    body = "".join(f"<w:p><w:r><w:t>{escape(text)}</w:t></w:r></w:p>" for text in paragraphs)
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>",
            "docProps/core.xml": _CORE,
            "docProps/custom.xml": _CUSTOM,
            **(more or {}),
        }
    )


def xlsx() -> bytes:
    """Return a workbook with a shared text, a number, a date and an inline text."""
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "xl/workbook.xml": f'<workbook {_S}><sheets><sheet name="Yields"/></sheets></workbook>',
            "xl/sharedStrings.xml": f"<sst {_S}><si><t>Barley</t></si></sst>",
            "xl/styles.xml": f'<styleSheet {_S}><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>',
            "xl/worksheets/sheet1.xml": (
                f'<worksheet {_S}><sheetData><row><c t="s"><v>0</v></c><c><v>42.5</v></c><c s="1"><v>45000</v></c>'
                '<c t="inlineStr"><is><t>tons</t></is></c></row></sheetData></worksheet>'
            ),
        }
    )


def pptx(*slides: str) -> bytes:
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "ppt/presentation.xml": f"<p:presentation {_P}/>",
            **{
                f"ppt/slides/slide{number}.xml": f"<p:sld {_P}><a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p></p:sld>"
                for number, text in enumerate(slides, 1)
            },
        }
    )


def odt(*paragraphs: str, is_encrypted: bool = False) -> bytes:
    body = "".join(f"<text:p>{escape(text)}</text:p>" for text in paragraphs)
    entry = '<m:file-entry m:full-path="content.xml"><m:encryption-data/></m:file-entry>' if is_encrypted else ""
    return zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "META-INF/manifest.xml": f'<m:manifest xmlns:m="m">{entry}</m:manifest>',
            "meta.xml": (
                '<o:document-meta xmlns:o="o" xmlns:dc="dc" xmlns:meta="meta"><o:meta><dc:title>The title</dc:title>'
                "<meta:initial-creator>Ada Author</meta:initial-creator><dc:language>de-AT</dc:language>"
                '<meta:user-defined meta:name="Project">Harvest</meta:user-defined></o:meta></o:document-meta>'
            ),
            "content.xml": f'<o:body xmlns:o="o" xmlns:text="text"><o:text>{body}</o:text></o:body>',
        }
    )


def pdf(*pages: str, is_encrypted: bool = False) -> bytes:
    """Return a PDF with a line on each page. An encrypted one has an unknown password."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>", ""]
    for page in pages:
        number = len(objects) + 1
        stream = f"BT /F1 12 Tf 20 100 Td ({page}) Tj ET"
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 200]/Contents {number + 1} 0 R"
            "/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>"
        )
        objects.append(f"<</Length {len(stream)}>>stream\n{stream}\nendstream")
    kids = " ".join(f"{3 + 2 * index} 0 R" for index in range(len(pages)))
    objects[1] = f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>"
    objects.append("<</Title(The title)/Author(Ada Author)/CreationDate(D:20240506070809+02'00')>>")
    info = len(objects)
    encrypt = ""
    if is_encrypted:
        secret = "41" * 32
        objects.append(f"<</Filter/Standard/V 1/R 2/P -4/O<{secret}>/U<{secret}>>>")
        encrypt = f"/Encrypt {len(objects)} 0 R/ID[<41><41>]"
    body, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    trailer = f"trailer<</Size {len(objects) + 1}/Root 1 0 R/Info {info} 0 R{encrypt}>>\nstartxref\n{len(body)}\n%%EOF"
    return body + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


def mail(text: str, *, attachments: Mapping[str, bytes] | None = None, subject: str = "The title") -> bytes:
    from email.message import EmailMessage

    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ada Author <ada@example.org>", "b@example.org", subject
    message["Date"] = "Mon, 06 May 2024 07:08:09 +0200"
    message.set_content(text)
    for name, body in (attachments or {}).items():
        message.add_attachment(body, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


def outlook(text: str, *, attachments: Mapping[str, bytes] | None = None) -> bytes:
    """Return an e-mail of Outlook."""
    sent = struct.pack("<IIQ", 0x00390040, 6, 133_594_636_890_000_000)
    streams: dict[tuple[str, ...], bytes] = {
        ("__properties_version1.0",): bytes(32) + sent,
        ("__substg1.0_0037001F",): "The title".encode("utf-16-le"),
        ("__substg1.0_0C1A001F",): "Ada Author".encode("utf-16-le"),
        ("__substg1.0_1000001F",): text.encode("utf-16-le"),
    }
    for number, (name, body) in enumerate((attachments or {}).items()):
        storage = f"__attach_version1.0_#{number:08X}"
        streams[storage, "__substg1.0_37010102"] = body
        streams[storage, "__substg1.0_3707001F"] = name.encode("utf-16-le")
    return ole(streams)


def ole(streams: Mapping[tuple[str, ...], bytes]) -> bytes:
    """Return an OLE file (MS-CFB) with these streams."""
    end, free, none = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFF
    sectors, small = _Sectors(512), _Sectors(64)
    entries: list[list] = [["Root Entry", 5, none, end, 0]]
    storages: dict[str, int] = {}
    last_of: dict[int, int] = {}
    right: dict[int, int] = {}

    def add(parent: int, name: str, kind: int, start: int, size: int) -> int:
        entries.append([name, kind, none, start, size])
        number = len(entries) - 1
        if parent in last_of:
            right[last_of[parent]] = number
        else:
            entries[parent][2] = number
        last_of[parent] = number
        return number

    for path, body in streams.items():
        parent = 0
        if len(path) == 2:
            if path[0] not in storages:
                storages[path[0]] = add(0, path[0], 1, 0, 0)
            parent = storages[path[0]]
        add(parent, path[-1], 2, (small if len(body) < 4096 else sectors).store(body), len(body))
    entries[0][3:] = [sectors.store(b"".join(small.pieces)), 64 * len(small.pieces)]
    small_table_at = sectors.store(struct.pack(f"<{len(small.table)}I", *small.table))
    directory = b""
    for number, (name, kind, child, start, size) in enumerate(entries):
        encoded = name.encode("utf-16-le") + b"\0\0"
        directory += (
            encoded.ljust(64, b"\0")
            + struct.pack("<HBBIII", len(encoded), kind, 1, none, right.get(number, none), child)
            + bytes(36)
            + struct.pack("<IQ", start, size)
        )
    directory_at = sectors.store(directory)
    table_at = len(sectors.pieces)
    table = [*sectors.table, 0xFFFFFFFD]
    header = (
        olefile.MAGIC
        + bytes(16)
        + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6)
        + bytes(6)
        + struct.pack("<IIIIIIIII", 0, 1, directory_at, 0, 4096, small_table_at, 1, end, 0)
        + struct.pack("<109I", table_at, *[free] * 108)
    )
    return header + b"".join(sectors.pieces) + struct.pack("<128I", *table, *[free] * (128 - len(table)))


class _Sectors:
    def __init__(self, size: int) -> None:
        self.size = size
        self.pieces: list[bytes] = []
        self.table: list[int] = []

    def store(self, body: bytes) -> int:
        """Return the first sector of a stream."""
        start = len(self.pieces)
        for at in range(0, len(body), self.size):
            self.pieces.append(body[at : at + self.size].ljust(self.size, b"\0"))
            self.table.append(len(self.pieces))
        if not body:
            return 0xFFFFFFFE
        self.table[-1] = 0xFFFFFFFE
        return start
