"""Text files in UTF-8, plain or packed, line by line."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from headbook.types import UserError

WIDE = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
"""First bytes of files in other encodings; those of UTF-16 are also the first of UTF-32's."""


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a plain or .gz text file, without line ends and a byte-order mark.

    UserError names the file, and the line that is not UTF-8 or where a packed file breaks off, and
    what encoding it seems to have instead.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            # Only \n ends a line: str.splitlines would also cut at U+2028 and unalign the sides.
            for line in stream:
                number += 1
                if wide := number == 1 and _wide(line):
                    mend = f"`iconv -f {wide.lower()} -t utf-8`"
                    raise UserError(f"{path} is in {wide}: save it as UTF-8 (for example {mend})")
                if b"\0" in line:
                    raise UserError(f"{path}, line {number}: a NUL byte: save the file as UTF-8")
                text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                yield text.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: not valid UTF-8 at byte {error.start + 1} of the line: "
            "re-encode the file (`iconv -f latin1 -t utf-8` if it is Latin-1) or mend the line"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(
            f"{path}, after line {number}: it cannot be read ({error}): put a text file there, or "
            "delete it and fetch the corpus again"
        ) from None


def _wide(line: bytes) -> str:
    """The encoding that a file's first line shows; empty where it may be UTF-8."""
    named = (name for name, marks in WIDE.items() if line.startswith(marks))
    # without a mark: ASCII in UTF-32 has three zeros in a row, in UTF-16 every second byte is one
    zeros = "UTF-32" if b"\0\0\0" in line else "UTF-16" if line[:4].count(0) == 2 else ""
    return next(named, zeros)
