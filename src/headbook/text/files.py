"""Text files in UTF-8, plain or packed, line by line."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from headbook.types import UserError


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a plain or .gz text file, without line ends and a byte-order mark.

    UserError names the file, and the line that is not UTF-8 or where a packed file breaks off.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            # Only \n ends a line: str.splitlines would also cut at U+2028 and unalign the sides.
            for line in stream:
                number += 1
                if b"\0" in line:
                    raise UserError(f"{path}, line {number}: a NUL byte: save the file as UTF-8")
                text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                yield text.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: not valid UTF-8 at byte {error.start + 1} of the line: "
            "re-encode the file (for example `iconv -t utf-8`) or mend the line"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(
            f"{path}, after line {number}: it cannot be read ({error}): put a text file there, or "
            "delete it and fetch the corpus again"
        ) from None
