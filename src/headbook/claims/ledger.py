"""The ledger of claims, data/claims.yml and claims/*.yml: read and checked, as dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

import yaml

from headbook.claims.rule import RANGED, Comparison, Rule
from headbook.paths import DATA, NOTEBOOKS
from headbook.types import UserError

PROFILES = ("smoke", "quick", "laptop", "full")
UNITS = ("share", "count", "layer", "ratio", "bleu", "correlation", "log")
ANY = "any"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The same safe loader in C, where PyYAML was built with it: ten times as fast."""


class Kind(StrEnum):
    """Only findings are counted; identities hold by construction, texts are no models."""

    FINDING = "finding"
    IDENTITY = "identity"
    TEXT = "text"


class Gate(StrEnum):
    """A condition without which a model says nothing about a claim.

    converged: further training would hardly move its quality. present: it has a head of the kind
    whose properties the claim is about. diagnostic: the same model untrained fails the rule. power:
    half of the interval is at most half of the effect that the work reports.
    """

    CONVERGED = "converged"
    PRESENT = "present"
    DIAGNOSTIC = "diagnostic"
    POWER = "power"


class Rows(StrEnum):
    """Meaning of a claim's rows: separate models, or settings of one model."""

    MODELS = "models"
    SETTINGS = "settings"


_FIELDS = {
    "id", "source", "claim", "paper", "unit", "study", "domain", "measure", "rule", "because",
    "profile",
}  # fmt: skip
_CELLS = ("value", "baseline")
_OPTIONAL = frozenset(
    {"kind", "gates", "role", "effect", "rows", "seeds", "history", "superseded", *_CELLS}
)
ROLES = ("any", "positional", "syntactic", "rare")


@dataclass(frozen=True)
class PaperValue:
    """One number (or a list of them) printed by the work; `of` says what it belongs to."""

    of: str
    values: tuple[float, ...]
    baseline: float | None = None


@dataclass(frozen=True)
class Change:
    """A former form of a claim: valid until that day, how it read, and why it was changed."""

    until: date
    was: str
    because: str


@dataclass(frozen=True)
class Claim:
    """One claim; see the head of data/claims.yml for what the fields mean.

    `role` is what a head must have for the gate `present`, None where the value alone tells.
    `effect` is the size that the work reports, in the unit of the value, for the gate `power`.
    `seeds` is the number of seeds behind each published interval, None for an interval within one
    model. `history` is in the order of the dates. `superseded` is the id of the claim that now asks
    the question in its place: it is shown and not counted. `value` refers to cells of a published
    table, one row per model, and `baseline` names another column of it, see claims/cells.py; where
    `value` is None the rows are published as claims.
    """

    id: str
    work: str
    where: str
    claim: str
    paper: tuple[PaperValue, ...]
    unit: str
    study: str
    domain: str
    measure: str
    rule: Rule
    because: str
    profile: str
    kind: Kind = Kind.FINDING
    gates: frozenset[Gate] = frozenset()
    role: str | None = None
    effect: float | None = None
    rows: Rows = Rows.MODELS
    seeds: int | None = None
    history: tuple[Change, ...] = ()
    superseded: str | None = None
    value: str | None = None
    baseline: str | None = None


@dataclass(frozen=True)
class Ledger:
    """All claims, in the order of the file, with the works they come from and the domains."""

    claims: tuple[Claim, ...]
    works: Mapping[str, str]
    domains: Mapping[str, tuple[str, ...]]

    def claim(self, identifier: str) -> Claim:
        """The claim with this id; UserError for an unknown one."""
        for claim in self.claims:
            if claim.id == identifier:
                return claim
        raise UserError(f"claim {identifier!r} is not in data/claims.yml: add it or mend the id")

    def applies(self, claim: Claim, corpus: str) -> bool:
        """Whether a model of this corpus counts for the claim; its collection decides."""
        return claim.domain == ANY or corpus.split("-")[0] in self.domains[claim.domain]


def load(path: Path | None = None) -> Ledger:
    """Read a ledger: data/claims.yml, then the part files of the folder `claims` beside it.

    A part file has `claims`, and `works` where it brings some. A fault is a UserError naming the
    file and claim.
    """
    path = path or DATA / "claims.yml"
    files = (path, *sorted(path.with_suffix("").glob("*.yml")))
    return _loaded(files, tuple(map(_stamp, files)))


def _stamp(path: Path) -> tuple[int, int] | None:
    """Changes with the file."""
    try:
        found = path.stat()
    except OSError:  # said when it is read
        return None
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _loaded(paths: tuple[Path, ...], stamps: tuple[tuple[int, int] | None, ...]) -> Ledger:
    first = paths[0].name
    files = {path.name: _read(path) for path in paths}
    for name, file in files.items():
        if name == first:
            _keys(file, {"domains", "works", "claims"}, name)
        else:
            _keys(file, {"claims"}, name, frozenset({"works"}))
        for key, kind in (("domains", dict), ("works", dict), ("claims", list)):
            if key in file and not isinstance(file[key], kind):
                raise UserError(f"{name}: {key} must be a {kind.__name__}")
    domains = {name: tuple(collections) for name, collections in files[first]["domains"].items()}
    works = {key: work for file in files.values() for key, work in file.get("works", {}).items()}
    claims = tuple(_claim(entry, name) for name, file in files.items() for entry in file["claims"])
    ledger = Ledger(claims, works, domains)
    for check in (_unique, _known_words, _known_successors):
        check(ledger, first)
    return ledger


def studies() -> tuple[str, ...]:
    """Every page that can have claims: the notebooks by name, in order."""
    return tuple(sorted(each.stem for each in NOTEBOOKS.glob("[0-9]*.ipynb")))


def _read(path: Path) -> dict:
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
    except FileNotFoundError:
        raise UserError(f"{path}: no such ledger; restore it with git checkout data") from None
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise UserError(f"{path.name}: not readable YAML ({_one_line(fault)})") from None
    if not isinstance(raw, dict):
        raise UserError(f"{path.name}: expected keys such as claims at the top")
    return raw


def _one_line(fault: Exception) -> str:
    return " ".join(str(fault).split())


def _keys(entry: object, known: set[str], where: str, optional: frozenset[str] = frozenset()):
    if not isinstance(entry, dict):
        raise UserError(f"{where}: expected a mapping with the keys {', '.join(sorted(known))}")
    if unknown := entry.keys() - known - optional:
        raise UserError(
            f"{where}: unknown key {_listed(unknown)}; known are {_listed(known | optional)}"
        )
    if missing := known - entry.keys():
        raise UserError(f"{where}: missing {_listed(missing)}; every entry needs it")


def _listed(names: object) -> str:
    return ", ".join(sorted(str(name) for name in names))


def _claim(entry: object, file: str) -> Claim:
    named = entry.get("id", "a claim without an id") if isinstance(entry, dict) else "a claim"
    where = f"{file}, {named}"
    _keys(entry, _FIELDS, where, _OPTIONAL)
    _keys(entry["source"], {"work", "where"}, f"{where}, source")
    if not isinstance(entry["paper"], list):
        raise UserError(f"{where}: paper must be a list, [] when the work gives no number")
    words = {key: entry[key] for key in _FIELDS - {"source", "paper", "rule"}} | entry["source"]
    return Claim(
        **{key: _text(word, f"{where}, {key}") for key, word in words.items()},
        paper=tuple(_paper(value, where) for value in entry["paper"]),
        rule=_rule(entry["rule"], where),
        kind=_member(Kind, entry.get("kind", "finding"), f"{where}, kind"),
        gates=_gates(entry, where),
        role=entry.get("role"),
        effect=None if "effect" not in entry else _number(entry["effect"], f"{where}, effect"),
        rows=_member(Rows, entry.get("rows", "models"), f"{where}, rows"),
        seeds=_seeds(entry.get("seeds"), f"{where}, seeds"),
        history=_history(entry.get("history", []), f"{where}, history"),
        superseded=_successor(entry, f"{where}, superseded"),
        **_cells(entry, where),
    )


def _gates(entry: dict, where: str) -> frozenset[Gate]:
    named = entry.get("gates", [])
    if not isinstance(named, list):
        raise UserError(f"{where}: gates must be a list")
    gates = frozenset(_member(Gate, gate, f"{where}, gates") for gate in named)
    if (Gate.POWER in gates) != ("effect" in entry):
        raise UserError(f"{where}: the gate power and the field effect need each other")
    if (role := entry.get("role")) is not None and (role not in ROLES or Gate.PRESENT not in gates):
        known = ", ".join(ROLES)
        raise UserError(f"{where}: role is one of {known}, for the gate present; found {role!r}")
    return gates


def _seeds(value: object, where: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 2):
        raise UserError(f"{where}: {value!r} is no number of seeds; an interval needs two or more")
    return value


def _successor(entry: dict, where: str) -> str | None:
    return _text(entry["superseded"], where) if "superseded" in entry else None


def _cells(entry: dict, where: str) -> dict[str, str]:
    """The fields value and baseline."""
    named = {key: _text(entry[key], f"{where}, {key}") for key in _CELLS if key in entry}
    if "value" in named:
        from headbook.cells import parse  # with pandas, which the ledger does not need otherwise

        try:
            parsed = parse(named["value"])
        except UserError as fault:
            raise UserError(f"{where}, value: {fault}") from None
        if parsed.aggregate or parsed.form:
            raise UserError(f"{where}, value: {parsed} needs no aggregate and no format")
    elif named:
        raise UserError(f"{where}: baseline is a column of the table that value names; add value")
    return named


def _history(entries: object, where: str) -> tuple[Change, ...]:
    if not isinstance(entries, list):
        raise UserError(f"{where}: must be a list")
    for entry in entries:
        _keys(entry, {"until", "was", "because"}, where)
    changes = tuple(
        Change(_day(entry["until"], where), _text(entry["was"], where),
               _text(entry["because"], where))
        for entry in entries
    )  # fmt: skip
    if list(changes) != sorted(changes, key=lambda change: change.until):
        raise UserError(f"{where}: put the oldest change first")
    return changes


def _day(value: object, where: str) -> date:
    try:
        return value if isinstance(value, date) else date.fromisoformat(str(value))
    except ValueError:
        raise UserError(f"{where}: {value!r} is no date like 2026-11-23") from None


def _paper(entry: object, where: str) -> PaperValue:
    _keys(entry, {"of", "value"}, f"{where}, paper", frozenset({"baseline"}))
    values = entry["value"] if isinstance(entry["value"], list) else [entry["value"]]
    numbers = tuple(_number(value, f"{where}, paper") for value in values)
    baseline = entry.get("baseline")
    return PaperValue(
        _text(entry["of"], f"{where}, paper"),
        numbers,
        None if baseline is None else _number(baseline, f"{where}, paper"),
    )


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{where}: must be text that is not empty")
    return value.strip()


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{where}: {value!r} is not a number")
    return float(value)


def _rule(entry: object, where: str) -> Rule:
    where = f"{where}, rule"
    _keys(entry, {"test"}, where, frozenset({"threshold", "range"}))
    test = _member(Comparison, entry["test"], where)
    bound = "range" if test in RANGED else "threshold"
    _keys(entry, {"test", bound}, where)
    if bound == "range":
        return Rule(test, range=_range(entry["range"], where))
    return Rule(test, _number(entry["threshold"], where))


def _range(value: object, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise UserError(f"{where}: range must be [low, high]")
    low, high = (_number(end, where) for end in value)
    if low > high:
        raise UserError(
            f"{where}: range [{low:g}, {high:g}] holds nothing; put the lower end first"
        )
    return low, high


def _member(words, value: object, where: str):
    try:
        return words(value)
    except ValueError:
        known = ", ".join(words)
        raise UserError(f"{where}: {value!r} is not known; use one of {known}") from None


def _unique(ledger: Ledger, file: str) -> None:
    seen = set()
    for claim in ledger.claims:
        if claim.id in seen:
            raise UserError(f"{file}: the id {claim.id} is used twice; rename one of them")
        seen.add(claim.id)


def _known_words(ledger: Ledger, file: str) -> None:
    known = {
        "study": studies(),
        "profile": PROFILES,
        "unit": UNITS,
        "domain": (ANY, *ledger.domains),
        "work": tuple(ledger.works),
    }
    for claim in ledger.claims:
        for field, words in known.items():
            if getattr(claim, field) not in words:
                raise UserError(
                    f"{file}, {claim.id}: {field} {getattr(claim, field)!r} is not known;"
                    f" use one of {', '.join(words)}"
                )


def _known_successors(ledger: Ledger, file: str) -> None:
    """A claim is superseded by one of its own page that is in force."""
    in_force = {claim.id: claim.study for claim in ledger.claims if claim.superseded is None}
    for claim in ledger.claims:
        if claim.superseded is not None and in_force.get(claim.superseded) != claim.study:
            raise UserError(
                f"{file}, {claim.id}: superseded names {claim.superseded!r}, which is no claim in "
                f"force of {claim.study}"
            )
