"""The invented target language of the controlled corpus: its order, agreement, dropped subject."""

from collections.abc import Callable
from enum import StrEnum

from headbook.corpora.controlled_grammar import Node
from headbook.corpora.controlled_lexicon import PERIOD, RELATIVE, Gender


class TargetOrder(StrEnum):
    """The order of subject, verb and object in the target language."""

    SVO = "svo"
    SOV = "sov"
    VSO = "vso"


ADJECTIVE_ENDINGS = {
    (Gender.MASCULINE, False): "o",
    (Gender.FEMININE, False): "a",
    (Gender.MASCULINE, True): "oi",
    (Gender.FEMININE, True): "ai",
}
PLURAL = "en"


def translate(root: Node, order: TargetOrder) -> str:
    """The sentence in the target language."""
    return " ".join(_clause(root, order)) + PERIOD.stem


def _each(nodes: list[Node], say: Callable[[Node], list[str]]) -> list[str]:
    return [word for node in nodes for word in say(node)]


def _clause(verb: Node, order: TargetOrder) -> list[str]:
    """A relative clause begins with its particle, whatever the order of the rest."""
    relative = [RELATIVE.stem for node in verb.left if node.lexeme is RELATIVE]
    subject, thing, place = (
        _each(verb.children(relation), lambda node: _noun_phrase(node, order))
        for relation in ("nsubj", "dobj", "obl")
    )
    said = {
        TargetOrder.SVO: [*subject, *_verb(verb, order), *thing, *place],
        TargetOrder.SOV: [*subject, *place, *thing, *_verb(verb, order)],
        TargetOrder.VSO: [*_verb(verb, order), *subject, *thing, *place],
    }[order]
    return [*relative, *said]


def _verb(verb: Node, order: TargetOrder) -> list[str]:
    """Modal particle, verb with its ending, and adverbs: before the verb in SOV, behind it else."""
    modals = [node.lexeme.stem for node in verb.children("aux")]
    adverbs = [node.lexeme.stem for node in verb.children("advmod")]
    inflected = verb.lexeme.stem + verb.agreement
    if order is TargetOrder.SOV:
        return [*adverbs, *modals, inflected]
    return [*modals, inflected, *adverbs]


def _noun_phrase(noun: Node, order: TargetOrder) -> list[str]:
    """Adjectives and prepositions stand before the noun in one order and behind it in another.

    A subject pronoun says nothing, for the verb's ending tells it; the relative one, nothing here.
    """
    if noun.lexeme.tag == "PRON":
        return [noun.lexeme.stem] if noun.lexeme.stem and noun.lexeme is not RELATIVE else []
    ending = ADJECTIVE_ENDINGS[noun.lexeme.gender, noun.inflected]
    pointers = [node.lexeme.stem + ending for node in noun.children("det") if node.lexeme.stem]
    adjectives = _each(noun.children("amod"), lambda node: _adjective(node, ending))
    cases = [node.lexeme.stem for node in noun.children("case")]
    core = [noun.lexeme.stem + (PLURAL if noun.inflected else "")]
    behind = _each(noun.children("nmod"), lambda node: _noun_phrase(node, order))
    behind += _each(noun.children("acl:relcl"), lambda node: _clause(node, order))
    if order is TargetOrder.SOV:
        return [*pointers, *adjectives, *core, *cases, *behind]
    return [*cases, *pointers, *core, *adjectives, *behind]


def _adjective(adjective: Node, ending: str) -> list[str]:
    degrees = [node.lexeme.stem for node in adjective.children("advmod")]
    return [*degrees, adjective.lexeme.stem + ending]
