"""The grammar of the controlled corpus: random phrases as nodes, written out as English trees."""

import random
from dataclasses import dataclass, field
from functools import cache

from headbook.corpora.controlled_lexicon import (
    PERIOD,
    PLURAL_DETERMINERS,
    PRONOUNS,
    RELATIVE,
    SINGULAR_DETERMINERS,
    Gender,
    Lexeme,
    Pronoun,
    lexicon,
)
from headbook.trees import ROOT, Tree

SHORTEST, LONGEST = 3, 20
RARE_SHARE = 0.5


@dataclass(eq=False)
class Node:
    """A word under construction, with its dependents in the order they are said.

    `agreement` is, for a verb, the ending its translation takes.
    """

    lexeme: Lexeme
    relation: str
    left: list["Node"] = field(default_factory=list)
    right: list["Node"] = field(default_factory=list)
    inflected: bool = False
    agreement: str = ""

    @property
    def form(self) -> str:
        return self.lexeme.plural if self.inflected else self.lexeme.form

    def children(self, *relations: str) -> list["Node"]:
        """Dependents that stand in one of these relations, in source order."""
        return [node for node in self.left + self.right if node.relation in relations]

    def walk(self) -> list["Node"]:
        """The node and all below it in the order they are said."""
        said: list[Node] = []
        self._say(said)
        return said

    def _say(self, said: list["Node"]) -> None:
        for child in self.left:
            child._say(said)
        said.append(self)
        for child in self.right:
            child._say(said)


@dataclass(frozen=True)
class Subject:
    """Agreement of a verb: its English number, and its ending in the target language."""

    third_singular: bool
    ending: str


ENDINGS = {
    (Gender.MASCULINE, False): "or",
    (Gender.FEMININE, False): "ara",
    (Gender.MASCULINE, True): "oren",
    (Gender.FEMININE, True): "aren",
}


def _agreement(noun: Node) -> Subject:
    """The agreement that a noun phrase asks of its verb."""
    return Subject(not noun.inflected, ENDINGS[noun.lexeme.gender, noun.inflected])


class Speaker:
    """Draws phrases; the odds spread each relation over several distances."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.words = lexicon()

    def likely(self, probability: float) -> bool:
        return self.chance.random() < probability

    def sentence(self) -> Node:
        """A main clause with its period."""
        root = self.clause("root")
        root.right.append(Node(PERIOD, "punct"))
        return root

    def clause(self, relation: str) -> Node:
        """Subject, verb, perhaps an object: the subject a pronoun or a noun phrase."""
        if self.likely(0.3):
            pronoun = self.chance.choice(PRONOUNS)
            subject = Node(Lexeme(pronoun.subject, "PRON", ""), "nsubj")
            agreement = Subject(pronoun.third_singular, pronoun.ending)
        else:
            subject = self.noun_phrase("nsubj", depth=0)
            agreement = _agreement(subject)
        verb = self.verb_phrase(relation, agreement, takes_object=self.likely(0.8))
        verb.left.insert(0, subject)
        if self.likely(0.12):
            verb.left.insert(0, Node(self.words.adverbs.draw(self.chance), "advmod"))
        return verb

    def verb_phrase(self, relation: str, agreement: Subject, takes_object: bool) -> Node:
        """A verb with modal, adverbs, object and prepositional phrase, but no subject yet."""
        verbs = self.words.transitive if takes_object else self.words.intransitive
        verb = Node(verbs.draw(self.chance), relation, agreement=agreement.ending)
        if self.likely(0.2):
            verb.left.append(Node(self.words.modals.draw(self.chance), "aux"))
        else:
            verb.inflected = agreement.third_singular
        if takes_object:
            verb.right.append(self.object())
        self.add_adverb(verb)
        if self.likely(0.15):
            verb.right.append(self.prepositional("obl"))
        return verb

    def object(self) -> Node:
        if self.likely(0.15):
            pronoun: Pronoun = self.chance.choice(PRONOUNS)
            return Node(Lexeme(pronoun.object, "PRON", pronoun.stem), "dobj")
        return self.noun_phrase("dobj", depth=0)

    def add_adverb(self, verb: Node) -> None:
        """Before the verb, after it and its object, or not at all."""
        if not self.likely(0.5):
            return
        adverb = Node(self.words.adverbs.draw(self.chance), "advmod")
        side = verb.left if self.likely(0.5) else verb.right
        side.append(adverb)

    def noun_phrase(self, relation: str, depth: int) -> Node:
        """Determiner, adjectives and noun; at depth 0 perhaps a phrase or clause behind it."""
        noun = Node(self.words.nouns.draw(self.chance), relation, inflected=self.likely(0.35))
        determiners = PLURAL_DETERMINERS if noun.inflected else SINGULAR_DETERMINERS
        if not noun.inflected or self.likely(0.5):
            odds = (6, 9, 10, 11)[: len(determiners)]
            noun.left.append(Node(self.chance.choices(determiners, cum_weights=odds)[0], "det"))
        for _ in range(self.chance.choices((0, 1, 2), cum_weights=(50, 85, 100))[0]):
            noun.left.append(self.adjective())
        if depth == 0 and self.likely(0.15):
            noun.right.append(self.prepositional("nmod"))
        elif depth == 0 and self.likely(0.18):
            noun.right.append(self.relative_clause(noun))
        return noun

    def adjective(self) -> Node:
        adjective = Node(self.words.adjectives.draw(self.chance), "amod")
        if self.likely(0.12):
            adjective.left.append(Node(self.words.degrees.draw(self.chance), "advmod"))
        return adjective

    def prepositional(self, relation: str) -> Node:
        """Its preposition tells whether a noun or the verb governs it, so none is ambiguous."""
        words = self.words
        cases = words.noun_prepositions if relation == "nmod" else words.verb_prepositions
        noun = self.noun_phrase(relation, depth=1)
        noun.left.insert(0, Node(cases.draw(self.chance), "case"))
        return noun

    def relative_clause(self, antecedent: Node) -> Node:
        """`that sees the dog` or `that the dog sees`: the verb agrees with its own subject."""
        if self.likely(0.5):
            subject = Node(RELATIVE, "nsubj")
            verb = self.relative_verb(_agreement(antecedent))
            verb.left.insert(0, subject)
            verb.right.insert(0, self.noun_phrase("dobj", depth=1))
            return verb
        subject = self.noun_phrase("nsubj", depth=1)
        verb = self.relative_verb(_agreement(subject))
        verb.left[:0] = [Node(RELATIVE, "dobj"), subject]
        return verb

    def relative_verb(self, agreement: Subject) -> Node:
        verb = Node(self.words.transitive.draw(self.chance), "acl:relcl")
        verb.inflected, verb.agreement = agreement.third_singular, agreement.ending
        if self.likely(0.3):
            verb.left.append(Node(self.words.adverbs.draw(self.chance), "advmod"))
        return verb


def plant(root: Node, chance: random.Random) -> None:
    """Puts a rare noun or adjective in the place of a common one, if the sentence has any.

    The rare noun takes the common one's gender, so agreement drawn before it still holds.
    """
    places = [node for node in root.walk() if node.lexeme.tag in ("NOUN", "ADJ")]
    if not places:
        return
    node = chance.choice(places)
    node.lexeme = chance.choice(_rare(node.lexeme.tag, node.lexeme.gender))


@cache
def _rare(tag: str, gender: Gender) -> list[Lexeme]:
    words = lexicon().rare_nouns if tag == "NOUN" else lexicon().rare_adjectives
    return [word for word in words if word.gender == gender]


def draw(chance: random.Random) -> Node:
    """One sentence of 3 to 20 words, its period included."""
    speaker = Speaker(chance)
    while True:
        root = speaker.sentence()
        if SHORTEST <= len(root.walk()) <= LONGEST:
            break
    if speaker.likely(RARE_SHARE):
        plant(root, chance)
    return root


def english(root: Node) -> Tree:
    """The sentence as text with its gold tree."""
    nodes = root.walk()
    position = {id(node): at for at, node in enumerate(nodes)}
    heads = [ROOT] * len(nodes)
    for node in nodes:
        for child in node.left + node.right:
            heads[position[id(child)]] = position[id(node)]
    text, words = "", []
    for node in nodes:
        text += " " if text and node.lexeme is not PERIOD else ""
        start = len(text)
        text += node.form
        words.append((start, len(text)))
    return Tree(
        text=text,
        words=tuple(words),
        heads=tuple(heads),
        relations=tuple(node.relation for node in nodes),
        tags=tuple(node.lexeme.tag for node in nodes),
    )


def rare_place(root: Node) -> int | None:
    """The word index of the planted rare word."""
    return next((at for at, node in enumerate(root.walk()) if node.lexeme.rare), None)
