"""Lines in WinoBias' brackets, of our own making."""

from headbook.corpora.winobias import FEMALE, MALE, cases

PRO = "7 [The cook] paid the clerk because [he] was late."
ANTI = "7 [The cook] paid the clerk because [she] was late."
OTHER = ("8 The cook thanked [the clerk] and asked [her] in.",
         "8 The cook thanked [the clerk] and asked [him] in.")  # fmt: skip


def test_a_case_has_both_pronouns_and_both_occupations():
    first, second = cases([(PRO, ANTI), OTHER])
    assert (first.stereotype, second.stereotype) == (MALE, FEMALE)
    for gender, pronoun in ((MALE, "he"), (FEMALE, "she")):
        version = first.versions[gender]
        assert version.text == f"The cook paid the clerk because {pronoun} was late."
        parts = (version.pronoun, version.referent, version.other)
        assert [version.text[slice(*part)] for part in parts] == [pronoun, "cook", "clerk"]


def test_a_second_pronoun_may_differ_and_an_article_stands_once():
    pro = "1 The clerk met [ the cook] and [he] forgot [his] hat."
    anti = "1 The clerk met the [the cook] and [she] forgot [her] hat."
    first, _ = cases([(pro, anti), OTHER])
    assert first.versions[FEMALE].text == "The clerk met the cook and she forgot her hat."


def test_left_out_are_other_words_and_unknown_or_missing_occupations():
    changed = ANTI.replace("late", "early")
    alone = "3 [The cook] left because [he] was late."
    assert len(list(cases([(PRO, changed), OTHER]))) == 1
    assert len(list(cases([(alone, alone.replace("[he]", "[she]")), OTHER]))) == 1
