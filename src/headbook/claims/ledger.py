"""The ledger of claims, data/claims.yml and claims/*.yml: read and checked, as dataclasses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from headbook.cells import parse
from headbook.claims.rule import Number, Rule
from headbook.paths import DATA, NOTEBOOKS
from headbook.types import UserError

ANY = "any"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The same safe loader in C, where PyYAML was built with it: ten times as fast."""

Text = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)]
checked = partial(pydantic_dataclass, frozen=True, config=ConfigDict(extra="forbid"))
"""A dataclass whose fields are checked as it is made, and that refuses unknown ones."""


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


@checked
class PaperValue:
    """One number (or a list of them) printed by the work; `of` says what it belongs to."""

    of: Text
    values: Annotated[
        tuple[Number, ...],
        BeforeValidator(lambda given: given if isinstance(given, list | tuple) else [given]),
        Field(validation_alias=AliasChoices("value", "values")),
    ]
    baseline: Number | None = None


@checked
class Change:
    """A former form of a claim: valid until that day, how it read, and why it was changed."""

    until: date
    was: Text
    because: Text


@checked
class Claim:
    """One claim; the head of data/claims.yml says what the fields mean."""

    id: Text
    work: Text
    where: Text
    claim: Text
    paper: tuple[PaperValue, ...]
    unit: Literal["share", "count", "layer", "ratio", "bleu", "correlation", "log"]
    study: Text
    domain: Text
    measure: Text
    rule: Rule
    because: Text
    kind: Kind = Kind.FINDING
    gates: frozenset[Gate] = frozenset()
    role: Literal["any", "positional", "syntactic", "rare"] | None = None
    effect: Number | None = None
    rows: Rows = Rows.MODELS
    seeds: Annotated[int, Field(strict=True, ge=2)] | None = None
    history: tuple[Change, ...] = ()
    superseded: Text | None = None
    unconverged: Text | None = None
    settled: Text | None = None
    unmeasured: Text | None = None
    value: Text | None = None
    baseline: Text | None = None

    @model_validator(mode="after")
    def _agrees(self) -> "Claim":
        """Fields that need or exclude each other."""
        if self.unconverged and Gate.CONVERGED in self.gates:
            raise ValueError("has the gate converged and says why it has none; remove one")
        if self.unconverged and self.settled:
            raise ValueError("settled is for the gate converged, which unconverged leaves out")
        if (Gate.POWER in self.gates) != (self.effect is not None):
            raise ValueError("the gate power and the field effect need each other")
        if self.role and Gate.PRESENT not in self.gates:
            raise ValueError(f"role {self.role} is for the gate present; add it")
        if list(self.history) != sorted(self.history, key=lambda change: change.until):
            raise ValueError("history: put the oldest change first")
        if self.baseline and not self.value:
            raise ValueError("baseline is a column of the table that value names; add value")
        if self.value:
            try:
                reference = parse(self.value)
            except UserError as fault:
                raise ValueError(f"value: {fault}") from None
            if reference.aggregate or reference.form:
                raise ValueError(f"value: {reference} needs no aggregate and no format")
        return self


@dataclass(frozen=True)
class Ledger:
    """All claims, in the order of the file, with the works they come from and the domains."""

    claims: tuple[Claim, ...]
    works: Mapping[str, str]
    domains: Mapping[str, Sequence[str]]

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
    return _loaded(tuple((each.name, each.read_text("utf-8")) for each in files))


@lru_cache(maxsize=4)
def _loaded(files: tuple[tuple[str, str], ...]) -> Ledger:
    claims, works, domains = [], {}, {}
    for name, text in files:
        try:
            file = yaml.load(text, Loader=LOADER)
        except yaml.YAMLError as fault:
            said = " ".join(str(fault).split())
            raise UserError(f"{name}: not readable YAML ({said})") from None
        works |= file.get("works", {})
        domains |= file.get("domains", {})
        claims += [_claim(entry, name) for entry in file["claims"]]
    ledger = Ledger(tuple(claims), works, domains)
    _check(ledger, files[0][0])
    return ledger


def studies() -> tuple[str, ...]:
    """Every page that can have claims: the notebooks by name, in order."""
    return tuple(sorted(each.stem for each in NOTEBOOKS.glob("[0-9]*.ipynb")))


def _claim(entry: dict[str, Any], file: str) -> Claim:
    """A claim as the file has it; its work and place stand under `source` there."""
    where = f"{file}, {entry.get('id', 'a claim without an id')}"
    source = entry.get("source")
    if not isinstance(source, dict):
        raise UserError(f"{where}: source needs work and where")
    given = {name: value for name, value in entry.items() if name != "source"} | source
    try:
        claim = TypeAdapter(Claim).validate_python(given)
    except ValidationError as fault:
        raise UserError(f"{where}: {_one_line(fault)}") from None
    excused = claim.kind is not Kind.FINDING or claim.superseded or claim.unconverged
    return claim if excused else replace(claim, gates=claim.gates | {Gate.CONVERGED})


def _one_line(fault: ValidationError) -> str:
    """The first fault: the field, what is wrong, and what was found there."""
    first = fault.errors(include_url=False)[0]
    field = ", ".join(str(each) for each in first["loc"])
    found = "" if first["type"] in ("missing", "value_error") else f", found {first['input']!r}"
    said = f"{first['msg'].removeprefix('Value error, ')}{found}"
    return " ".join((f"{field}: {said}" if field else said).split())


def _check(ledger: Ledger, file: str) -> None:
    """UserError for an id used twice, an unknown page, domain, work or successor."""
    known = {"study": studies(), "domain": (ANY, *ledger.domains), "work": tuple(ledger.works)}
    in_force = {claim.id: claim.study for claim in ledger.claims if claim.superseded is None}
    seen: set[str] = set()
    for claim in ledger.claims:
        if claim.id in seen:
            raise UserError(f"{file}: the id {claim.id} is used twice; rename one of them")
        seen.add(claim.id)
        for field, words in known.items():
            if (word := getattr(claim, field)) not in words:
                raise UserError(
                    f"{file}, {claim.id}: {field} {word!r} is not known; use one of "
                    f"{', '.join(words)}"
                )
        if claim.superseded is not None and in_force.get(claim.superseded) != claim.study:
            raise UserError(
                f"{file}, {claim.id}: superseded names {claim.superseded!r}, which is no claim in "
                f"force of {claim.study}"
            )
