"""The controlled corpus is what it says: deterministic, gold, Zipfian, agreeing, pro-drop."""

import random
from collections import Counter

import pytest

from headbook.corpora import controlled_grammar as grammar
from headbook.corpora.controlled import ControlledCorpus, TargetOrder, generate, split
from headbook.corpora.controlled_grammar import Node, Speaker, english
from headbook.corpora.controlled_lexicon import (
    PERIOD,
    RELATIVE,
    Gender,
    Lexeme,
    invented,
    lexicon,
)
from headbook.corpora.controlled_target import translate
from headbook.trees import RELATIONS, ROOT, Tree
from headbook.types import UserError

DOG = Lexeme("dog", "NOUN", "dog", plural="dogs", gender=Gender.FEMININE)
KING = Lexeme("king", "NOUN", "king", plural="kings", gender=Gender.MASCULINE)
SEE = Lexeme("see", "VERB", "see", plural="sees")
OLD = Lexeme("old", "ADJ", "old")
NOW = Lexeme("now", "ADV", "now")
NEAR = Lexeme("near", "ADP", "near")
WILL = Lexeme("will", "AUX", "will")
THIS = Lexeme("this", "DET", "this")

PINNED_SOURCE = (
    "quietly the red writer pulls the clumsy thin father.",
    "this menal always opens some girls.",
)
PINNED_TARGET = (
    "bogubo roretum kesoza pomoza gavem belap nisuvor.",
    "dova menal yemai buruzen turirop ripozara.",
)


@pytest.fixture(scope="module")
def corpus() -> ControlledCorpus:
    return generate(TargetOrder.SOV, 1500, seed=0)


def test_the_same_seed_gives_the_same_corpus_and_another_seed_another():
    first, again = (generate(TargetOrder.SVO, 50, seed=3) for _ in range(2))
    assert first == again
    assert generate(TargetOrder.SVO, 50, seed=4).source != first.source


def test_a_longer_corpus_begins_with_the_shorter_one():
    assert generate(TargetOrder.SVO, 80, 3).part(0, 50) == generate(TargetOrder.SVO, 50, 3)


def test_the_first_sentence_is_pinned():
    """A grammar that changes changes every controlled run: this says so."""
    corpus = generate(TargetOrder.SOV, 2, seed=0)
    assert corpus.source == PINNED_SOURCE
    assert corpus.target == PINNED_TARGET


def test_the_three_orders_share_sources_trees_and_rare_words():
    svo, sov, vso = (generate(order, 200, seed=1) for order in TargetOrder)
    assert svo.source == sov.source == vso.source
    assert svo.trees == sov.trees == vso.trees
    assert svo.rare == sov.rare == vso.rare
    assert sum(a != b for a, b in zip(svo.target, sov.target, strict=True)) > 150
    assert sum(a != b for a, b in zip(svo.target, vso.target, strict=True)) > 100


def test_sources_are_distinct_and_three_to_twenty_words_long(corpus: ControlledCorpus):
    assert len(set(corpus.source)) == len(corpus) == 1500
    lengths = {len(tree) for tree in corpus.trees}
    assert lengths == set(range(3, 21))


def test_split_shares_no_source_sentence():
    parts = split(TargetOrder.VSO, train=300, valid=40, test=50, seed=2)
    assert [len(part) for part in parts] == [300, 40, 50]
    assert len({text for part in parts for text in part.source}) == 390
    assert all(len(part.trees) == len(part.rare) == len(part.target) == len(part) for part in parts)


def test_an_exhausted_grammar_is_the_users_to_mend(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grammar.Speaker, "sentence", lambda self: clause(OLD))
    monkeypatch.setattr(grammar, "RARE_SHARE", 0.0)
    with pytest.raises(UserError, match="controlled-svo"):
        generate(TargetOrder.SVO, 3, seed=0)


def test_every_tree_is_projective_with_one_root_over_the_whole_text(corpus: ControlledCorpus):
    for tree, text in zip(corpus.trees, corpus.source, strict=True):
        assert tree.text == text
        assert tree.heads.count(ROOT) == 1
        assert tree.relations[tree.heads.index(ROOT)] == "root"
        assert "".join(tree.forms) == text.replace(" ", "")
        assert projective(tree)


def projective(tree: Tree) -> bool:
    arcs = [sorted((arc.dependent, arc.head)) for arc in tree.arcs()]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


def test_gold_relations_join_the_parts_of_speech_they_should(corpus: ControlledCorpus):
    joined = {relation: Counter() for relation in RELATIONS}
    for tree in corpus.trees:
        for arc in tree.arcs():
            if arc.relation in joined:
                joined[arc.relation][tree.tags[arc.dependent], tree.tags[arc.head]] += 1
    assert set(joined["nsubj"]) == {("NOUN", "VERB"), ("PRON", "VERB")}
    assert set(joined["dobj"]) == {("NOUN", "VERB"), ("PRON", "VERB")}
    assert set(joined["amod"]) == {("ADJ", "NOUN")}
    assert set(joined["advmod"]) == {("ADV", "VERB"), ("ADV", "ADJ")}
    assert min(counts.total() for counts in joined.values()) > 750


def test_rare_words_are_where_they_are_said_to_be(corpus: ControlledCorpus):
    frequency = Counter(form for tree in corpus.trees for form in tree.forms)
    planted = [
        (tree, place)
        for tree, place in zip(corpus.trees, corpus.rare, strict=True)
        if place is not None
    ]
    assert 0.35 < len(planted) / len(corpus) < 0.55
    rarest = [
        min(range(len(tree)), key=lambda at, tree=tree: frequency[tree.forms[at]]) == place
        for tree, place in planted
    ]
    assert sum(rarest) / len(rarest) > 0.98
    assert {tree.tags[place] for tree, place in planted} == {"NOUN", "ADJ"}
    assert len({place for _, place in planted}) > 10


def test_no_rare_word_hides_in_a_sentence_said_to_have_none(corpus: ControlledCorpus):
    words = lexicon()
    rare = {
        form
        for word in words.rare_nouns + words.rare_adjectives
        for form in (word.form, word.plural)
    }
    for tree, place in zip(corpus.trees, corpus.rare, strict=True):
        assert [at for at, form in enumerate(tree.forms) if form in rare] == (
            [] if place is None else [place]
        )


def test_the_common_vocabulary_is_zipfian(corpus: ControlledCorpus):
    rare = {
        tree.forms[place]
        for tree, place in zip(corpus.trees, corpus.rare, strict=True)
        if place is not None
    }
    frequency = Counter(form for tree in corpus.trees for form in tree.forms if form not in rare)
    assert 330 <= len(frequency) <= 430
    ranked = [count for _, count in frequency.most_common()]
    assert ranked[9] > 3 * ranked[99] > 6 * ranked[249]


def test_rare_lexemes_are_no_common_words_and_all_stems_differ():
    words = lexicon()
    common = [
        lexeme
        for zipf in vars(words).values()
        if not isinstance(zipf, tuple)
        for lexeme in zipf.lexemes
    ]
    rare = words.rare_nouns + words.rare_adjectives
    stems = [lexeme.stem for lexeme in common] + [lexeme.stem for lexeme in rare]
    assert len(set(stems)) == len(stems)
    assert not {lexeme.form for lexeme in common} & {lexeme.form for lexeme in rare}
    forms = [lexeme.form for lexeme in common]
    assert len(set(forms)) == len(forms)


def test_invented_words_never_repeat():
    words = invented(random.Random(0), onsets="b", codas="d")
    assert len({next(words) for _ in range(100)}) == 100


def noun(lexeme: Lexeme, relation: str, plural: bool, *left: Lexeme) -> Node:
    relations = {"ADJ": "amod", "DET": "det", "ADP": "case"}
    children = [Node(word, relations[word.tag]) for word in left]
    return Node(lexeme, relation, left=children, inflected=plural)


def clause(*adjectives: Lexeme, plural: bool = False, agreement: str = "ara") -> Node:
    """`this old dog will now see old kings near this king.`"""
    subject = noun(DOG, "nsubj", plural, THIS, *adjectives)
    thing = noun(KING, "dobj", True, *adjectives)
    place = noun(KING, "obl", False, NEAR, THIS)
    verb = Node(SEE, "root", [subject, Node(WILL, "aux"), Node(NOW, "advmod")], agreement=agreement)
    verb.right = [thing, place, Node(PERIOD, "punct")]
    return verb


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (TargetOrder.SVO, "thisa dog olda will seeara now kingen oldoi near thiso king."),
        (TargetOrder.SOV, "thisa olda dog thiso king near oldoi kingen now will seeara."),
        (TargetOrder.VSO, "will seeara now thisa dog olda kingen oldoi near thiso king."),
    ],
)
def test_each_order_says_a_known_sentence_in_its_own_way(order: TargetOrder, said: str):
    assert english(clause(OLD)).text == "this old dog will now see old kings near this king."
    assert translate(clause(OLD), order) == said


def test_the_adjective_agrees_with_its_noun_in_number():
    assert translate(clause(OLD, plural=True), TargetOrder.SVO).startswith("thisai dogen oldai ")


def test_a_relative_clause_begins_with_its_particle_and_agrees_with_its_own_subject():
    seen = Node(SEE, "acl:relcl", inflected=True, agreement="or")
    seen.left = [Node(RELATIVE, "dobj"), noun(KING, "nsubj", False)]
    dog = noun(DOG, "nsubj", False)
    dog.right = [seen]
    main = Node(SEE, "root", [dog], [Node(PERIOD, "punct")], agreement="ara")
    assert english(main).text == "dog that king sees see."
    assert english(main).heads == (4, 3, 3, 0, ROOT, 4)
    assert translate(main, TargetOrder.VSO) == "seeara dog ke seeor king."


def test_the_pronominal_subject_is_dropped_and_heard_in_the_verb():
    pronoun = Node(Lexeme("they", "PRON", ""), "nsubj")
    verb = Node(SEE, "root", [pronoun], [Node(PERIOD, "punct")], agreement="oren")
    assert english(verb).text == "they see."
    assert translate(verb, TargetOrder.SVO) == "seeoren."


def test_a_planted_word_keeps_the_gender_the_verb_agreed_with():
    chance = random.Random(5)
    for _ in range(200):
        root = Speaker(chance).sentence()
        before = [node.lexeme.gender for node in root.walk()]
        grammar.plant(root, chance)
        assert [node.lexeme.gender for node in root.walk() if node.lexeme.tag == "NOUN"] == [
            gender
            for gender, node in zip(before, root.walk(), strict=True)
            if node.lexeme.tag == "NOUN"
        ]


def test_no_preposition_leaves_open_what_it_hangs_on(corpus: ControlledCorpus):
    governed: dict[str, set[str]] = {}
    for tree in corpus.trees:
        for arc in tree.arcs():
            if arc.relation == "case":
                governed.setdefault(tree.forms[arc.dependent], set()).add(tree.relations[arc.head])
    assert all(len(relations) == 1 for relations in governed.values())
    assert set.union(*governed.values()) == {"nmod", "obl"}
