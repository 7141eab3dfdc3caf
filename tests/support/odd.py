"""Tables as nobody should write them."""

from hypothesis import strategies as st

PIECES = [
    *(b"smiles", b"name", b"C", b"CCO", b"c1ccccc1", b"C" * 300, b"nan", b"=cmd", "é".encode()),
    *(b",", b",", b"\t", b"\n", b"\n", b"\r\n", b"\r", b'"', b'""', b" ", b"#", b";"),
    *(b"\x1b[31m", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8"),
]
HEADERS = [b"smiles,name\n", b"name,smiles\r\n", b"smiles\r", b'"smiles",name\n', b""]


def odd_tables():
    """Contents of tables, most of them with a header."""
    body = st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join)
    return st.tuples(st.sampled_from(HEADERS), body).map(b"".join)


def rows_of(content):
    """Lines with something on them, but for the first; however lines end."""
    text = content.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return [n for n, line in enumerate(text.split("\n"), 1) if line.strip() and n > 1]
