"""One name for each of the four relations, whatever scheme a parser or treebank labels with.

The paper parsed with CoreNLP, whose dependencies of that time (Stanford, Universal Dependencies 1)
know `dobj`, keep the passive's subject apart as `nsubjpass` and the negation as `neg`. Universal
Dependencies 2 (`obj`, `nsubj:pass`, negation under `advmod`) and ClearNLP (spaCy's English models:
`dobj`, `nsubjpass`, `neg`) are brought to that reading: a passive's subject is no `nsubj`, and
"not" and "never" are no `advmod`.
"""

RENAMED = {
    "nsubj": "nsubj",
    "obj": "dobj",
    "dobj": "dobj",
    "amod": "amod",
    "advmod": "advmod",
    "ROOT": "root",
}
NEGATIONS = frozenset({"not", "n't", "n’t", "never"})


def normalised(label: str, form: str) -> str:
    """The label of a word as the paper's parser would have it; other relations stay as they are.

    Subtypes of the four relations are dropped (`nsubj:outer` is `nsubj`), save the passive's.
    """
    base, _, subtype = label.partition(":")
    if base == "nsubj" and subtype == "pass":
        return "nsubjpass"
    if base == "advmod" and form.lower() in NEGATIONS:
        return "neg"
    return RENAMED.get(base, label)
