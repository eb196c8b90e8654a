"""Each entry of the register of deviations names a test, and these are the tests: ours is so."""

import ast
import inspect
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from headbook.artefacts.language import Setting, initial
from headbook.artefacts.masked import MaskedRun
from headbook.artefacts.model import Size
from headbook.artefacts.pruned import PruningRun
from headbook.artefacts.pruning_orders import SCORED_ON
from headbook.artefacts.watching import Watched, WatchedAsRun
from headbook.chapters.config import Config
from headbook.chapters.profile import PROFILES
from headbook.claims.ledger import load as load_ledger
from headbook.corpora.batches import EOS, PAD, collate
from headbook.corpora.masked import masked_copies
from headbook.corpora.opensubtitles import MINIMUM_OVERLAP
from headbook.corpora.registry import registry
from headbook.corpora.subwords import Subwords
from headbook.experiments import drop_head, objectives, regularising
from headbook.experiments.through_objectives import MASKINGS
from headbook.heads.arcs import PieceRule
from headbook.heads.collect import collect
from headbook.heads.diversity_grams import grams
from headbook.heads.four_metrics import four_metrics as four_metrics_together
from headbook.heads.measure import REPLICATES, Selection, best_head
from headbook.heads.offset_baseline import offset_baseline
from headbook.heads.outputs import output_parts
from headbook.heads.positional import EdgeQueries, PositionalShare
from headbook.heads.rare import OUTSIDE_TOP, RareShare, RareUnit
from headbook.heads.relevance_rules import EPSILON_2019, PositiveRules, Variant, rules_of
from headbook.heads.roles import Thresholds
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.heads.tokens import NOWHERE, Counting, EosKeys, EosQueries, pointed
from headbook.layers.mutual_information import SHUFFLES
from headbook.layers.occurrences import frequent, occurrences
from headbook.layers.states import token_states
from headbook.models.capture import Point
from headbook.models.delight import BlockScaling, DelightTransformer
from headbook.models.dropout import LEVELS, byte_mask
from headbook.models.gates import all_heads
from headbook.models.transformer import Embedding, NormPlacement, Transformer, TransformerConfig
from headbook.paths import BOOK, NOTEBOOKS, REPOSITORY
from headbook.pruning.gating import HeadPenalty, gate_heads
from headbook.pruning.hard_concrete import CONSTANTS, Constants, Decision, Source
from headbook.results import published
from headbook.syntax.labels import normalised
from headbook.training.config import TrainingConfig
from headbook.training.precision import Precision
from headbook.training.regularising import Regulariser, Term
from headbook.training.regularising import value as penalty
from headbook.training.schedule import learning_rate
from headbook.training.scoring import Casing, bleu
from headbook.types import HeadId, Kind

FIELDS = ("id", "title", "paper", "ours", "why", "test")
REGISTER = yaml.safe_load((BOOK / "deviations.yml").read_text(encoding="utf-8"))


def default(function, name):
    return inspect.signature(function).parameters[name].default


@pytest.mark.parametrize("entry", REGISTER, ids=lambda entry: entry.get("id"))
def test_an_entry_is_whole_and_its_test_exists(entry):
    assert tuple(entry) == FIELDS
    assert all(isinstance(text, str) and text.strip() for text in entry.values())
    path, _, name = entry["test"].partition("::")
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_ids_are_unique_words():
    ids = [entry["id"] for entry in REGISTER]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", identifier) for identifier in ids)


def test_every_citation_is_in_the_bibliography():
    known = set(re.findall(r"@\w+\{(\w+),", (BOOK / "references.bib").read_text("utf-8")))
    pages = [BOOK / "deviations.yml", BOOK / "intro.md", *sorted(Path(BOOK / "parts").glob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    cited = {
        key for keys in re.findall(r"\{cite(?::t)?\}`([^`]+)`", text) for key in keys.split(",")
    }
    assert cited and cited <= known
    assert set(load_ledger().works) - {"headbook"} <= known  # our own questions are cited nowhere


def test_corpora():
    collections = {name.split("-")[0] for name in registry()}
    assert {"multi30k", "tatoeba", "msdocs", "wmt", "opensubtitles2018"} <= collections
    domains = load_ledger().domains
    assert "msdocs" in domains["long"] and "tatoeba" in domains["short"]
    assert MINIMUM_OVERLAP == 0.9


def test_model_size():
    size = Size()
    assert (size.layers, size.heads, size.width, size.feed_forward) == (6, 8, 128, 512)
    papers = TransformerConfig(source_vocabulary=9, target_vocabulary=9)
    assert (papers.encoder_layers, papers.decoder_layers, papers.heads) == (6, 6, 8)
    assert (papers.width, papers.feed_forward, papers.dropout) == (512, 2048, 0.1)
    assert papers.norm is NormPlacement.PRE


def test_training_constants():
    config = TrainingConfig(updates=1)
    assert (config.tokens, config.warmup, config.scale) == (4096, 600, 1.1)
    assert (config.betas, config.epsilon, config.label_smoothing) == ((0.9, 0.98), 1e-9, 0.1)


def test_schedule_form():
    peak = learning_rate(16_000, width=512, scale=4.0, warmup=16_000)
    assert peak == pytest.approx(1.40e-3, rel=2e-3)


def test_precision():
    assert TrainingConfig(updates=1).precision is Precision.BF16
    assert Precision.BF16 == "bf16-mixed"


def test_raw_text():
    sentence = "Anna can't sing - yet, Anna sings."
    subwords = Subwords.train([sentence] * 3, vocabulary=60)
    assert subwords.decode(subwords.encode([sentence])[0]) == sentence
    shouted, spoken = ["THE CAT SAT ON THE MAT"], ["the cat sat on the mat"]
    assert bleu(shouted, spoken, Casing.CASED).score < 1
    assert bleu(shouted, spoken, Casing.LOWER).score == pytest.approx(100)


def test_subwords():
    sentence = "well, well-known wells"
    subwords = Subwords.train([sentence] * 9, vocabulary=60)
    pieces = [sentence[start:end] for start, end in subwords.spans(sentence)]
    assert "".join(pieces) == sentence.replace(" ", "")
    assert all(piece.isalpha() or not any(map(str.isalpha, piece)) for piece in pieces)


def test_initial_weights():
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(60, 60, encoder_layers=1, decoder_layers=1, width=64, feed_forward=128)
    )
    weight, inner = model.encoder[0].attention.query.weight, model.encoder[0].feed_forward.inner
    assert weight.detach().abs().max() == pytest.approx((6 / (64 + 64)) ** 0.5, rel=0.01)
    assert inner.weight.detach().abs().max() == pytest.approx((6 / (64 + 128)) ** 0.5, rel=0.01)
    assert model.source.tokens.weight.detach().std() == pytest.approx(64**-0.5, rel=0.05)
    assert model.source.bias.requires_grad and not model.source.bias.any()


def test_the_start_of_decoding_is_the_zero_vector():
    embedding = Embedding(9, 16)
    torch.nn.init.normal_(embedding.bias)
    start = embedding(torch.tensor([[PAD]]))[0, 0]
    assert torch.equal(start, embedding.positions[0])


def test_dropout_rate():
    torch.manual_seed(0)
    dropped = byte_mask(torch.Size([1000, 1000]), 0.1).double().mean()
    assert LEVELS == 256 and dropped == pytest.approx(26 / 256, abs=1e-3)


def test_relation_names():
    assert normalised("obj", "ball") == normalised("dobj", "ball") == "dobj"
    assert normalised("nsubj", "ball") == "nsubj"
    assert "nsubj" not in (normalised("nsubj:pass", "ball"), normalised("nsubjpass", "ball"))
    assert normalised("advmod", "often") == "advmod" != normalised("advmod", "not")


def test_intervals_by_default():
    assert REPLICATES == 200
    for measure in (PositionalShare, SyntacticAccuracy, RareShare):
        assert default(measure.__init__, "replicates") == REPLICATES


def test_best_head():
    assert default(best_head, "selection") is Selection.HALVES
    assert default(offset_baseline, "selection") is Selection.HALVES


def test_eos():
    assert Counting() == Counting(EosKeys.EXCLUDED, EosQueries.EXCLUDED)
    assert default(SyntacticAccuracy.__init__, "eos_keys") is EosKeys.EXCLUDED


def test_edges():
    assert default(PositionalShare.__init__, "edge_queries") is EdgeQueries.EXCLUDED


def test_pieces_to_words():
    assert default(SyntacticAccuracy.__init__, "rule") is PieceRule.SUM
    assert len(PieceRule) == 5


def test_role_thresholds():
    assert Thresholds() == Thresholds(positional=0.90, syntactic_margin=0.10, rare=0.50)
    assert OUTSIDE_TOP == 500
    assert default(RareShare.__init__, "outside_top") == OUTSIDE_TOP
    assert default(RareShare.__init__, "unit") is RareUnit.QUERY


def test_ties():
    weights = torch.tensor([[0.4, 0.4, 0.2], [0.5, 0.3, 0.2]]).reshape(1, 1, 1, 2, 3)
    assert pointed(weights).flatten().tolist() == [NOWHERE, 0]


def small() -> Transformer:
    return Transformer(TransformerConfig(9, 9, 2, 2, width=8, feed_forward=8, heads=2))


def test_relevance_rules():
    assert rules_of(Variant.CODE_2019) == PositiveRules(EPSILON_2019) == PositiveRules(1e-7)
    measured = [claim.measure for claim in load_ledger().claims if claim.study == "16_relevance"]
    assert any("2019" in text for text in measured)


def test_gate_training():
    pruning = PROFILES["laptop"].pruning
    assert (pruning.gate_factor, pruning.training.updates) == (100.0, 150)
    assert PROFILES["full"].pruning.gate_factor == 1.0
    model = small()
    gate_heads(model, [Kind.ENCODER], CONSTANTS[Source.CODE], seed=0)
    gate = model.encoder[0].attention.gate
    gate.log_alpha.data = torch.tensor([0.1, -0.1])
    assert gate.eval()().tolist() == [1.0, 0.0] and gate.decision is Decision.LIKELIER


def test_gate_constants():
    assert CONSTANTS[Source.CODE] == Constants(0.33, -0.1, 1.1)
    assert CONSTANTS[Source.FIGURE] == Constants(0.5, -0.1, 1.1)
    assert default(PruningRun, "source") is Source.CODE


def test_price_of_a_head():
    model = small()
    gate_heads(model, list(Kind), CONSTANTS[Source.CODE], seed=0)
    for _, _, block in model.attentions():
        block.gate.log_alpha.data.fill_(50.0)  # surely open
    assert float(HeadPenalty(0.25)(model).detach()) == pytest.approx(0.25 * len(all_heads(model)))


def test_trained_further():
    sweep, summary = published(18, "sweep"), published(18, "summary")
    ours = "model == 'mixture-fr-256'"
    whole = sweep.query(f"{ours} and chosen == 'whole' and updates > 0")["bleu"].item()
    few = summary.query(f"{ours} and question == 'fewer than half of the heads'")
    assert few["baseline"].item() == whole
    texts = [load_ledger().claim(name).measure for name in ("voita-f7-half", "voita-t2-half")]
    assert all("further training" in text for text in texts)


def test_masked_sentences():
    assert PROFILES["laptop"].pruning.translated == 500
    assert MaskedRun("test", 1, ((HeadId(Kind.ENCODER, 0, 0),),)).search.beam == 1


def test_importance_on_validation():
    assert SCORED_ON == "valid" and PROFILES["laptop"].pruning.examined == 500


def test_diversity_before_training():
    assert set(published(30, "start")["text"]) == {"multi30k-de", "ewt-sample"}
    assert "NormPlacement.POST" in Path(NOTEBOOKS, "30_four_metrics.ipynb").read_text("utf-8")
    config = TransformerConfig(9, 9, 0, 1, 8, 8, 2, dropout=0.0, norm=NormPlacement.POST)
    model, ids = Transformer(config).eval(), torch.tensor([[PAD, 4, 5, 6]])
    later = ids.clone()
    later[0, -1] = 7
    before, after = (model.decode(each, None, None) for each in (ids, later))
    assert torch.equal(before[:, :-1], after[:, :-1])
    assert not torch.equal(before[:, -1], after[:, -1])


def test_outputs_of_heads():
    model = small()
    (kind, _, block), *_ = model.attentions()
    parts = output_parts(model, kind)[0]
    assert torch.equal(torch.cat([part.T for part in parts], dim=1), block.output.weight)


def test_language_text():
    runs = [run for run in PROFILES["laptop"].language if run.setting is Setting.PUBLISHED]
    assert {run.corpus for run in runs} == {"wikitext-2"} and {run.vocabulary for run in runs} == {
        5002
    }
    assert {(run.training.updates, run.training.tokens, run.context) for run in runs} == {
        (222, 64 * 256, 256)
    }
    assert {run.training.precision for run in runs} == {Precision.BF16}
    assert (runs[0].size.heads, runs[0].dropout) == (8, 0.1)  # the article's own
    full = [run for run in PROFILES["full"].language if run.setting is Setting.PUBLISHED]
    assert sorted((run.size.heads, run.dropout) for run in runs) == [
        (heads, dropout) for heads in (2, 4, 8, 16) for dropout in (0.0, 0.1)
    ]
    assert full == runs


def test_diversity_watched():
    assert default(Watched, "segments") == 8
    assert default(four_metrics_together, "training") is default(collect, "training") is False
    watched = {
        each.watched.__class__
        for each in PROFILES["laptop"].language
        if each.setting is Setting.PUBLISHED
    }
    assert watched == {WatchedAsRun}  # and page 31 as the paper


@torch.no_grad()
def test_described_embeddings():
    torch.manual_seed(0)
    published, described = (
        float(
            initial(PROFILES["laptop"].language[at], 500).target(torch.arange(3, 500)[None]).std()
        )
        for at in (0, -1)
    )
    assert published == pytest.approx(128**0.5, rel=0.1)
    assert described == pytest.approx(1.2, rel=0.1)  # positions are a fifth of the variance or so


def test_drop_head_rate():
    _, *found = drop_head.SCHEDULES
    assert found == [(name, rate) for rate in (0.2, 0.1) for name in ("one rate", "V")]
    assert (drop_head.SETTING.warmup, drop_head.SETTING.updates) == (200, 400)  # where a V turns


def test_variants_rate():
    described, *_ = Config("laptop").language_models(Setting.DESCRIBED)
    varied = Config("laptop").varied_model()
    assert varied.training.scale == pytest.approx(described.training.scale / 3, rel=0.05)
    assert varied.training.updates == described.training.updates / 2
    same = replace(varied.training, scale=0.5, updates=800)
    assert replace(varied, training=same) == described
    assert {run.training for run in Config("laptop", seed=0).variants()} == {varied.training}


def test_delight_blocks():
    whole, delight, thinner = Config("laptop").light_models()
    assert delight.scaling == BlockScaling(4, 8, 2.0) and delight.size.heads == 1
    made = Transformer(TransformerConfig(9, 9, 0, 2, 32, 64, 1, norm=NormPlacement.POST))
    light = DelightTransformer(made.config, delight.scaling)
    assert type(light.target) is type(made.target) and light.logits.weight.shape == (9, 32)
    assert whole.size.width == delight.size.width and whole.training == delight.training
    assert {run.corpus for run in (whole, delight, thinner)} == {"wikitext-2"}


def overlaps(term: Term, kinds: tuple[Kind, ...], scale: float) -> tuple[float, float]:
    """The penalty, and the article's raw norm, of two heads that share all their directions."""
    torch.manual_seed(0)
    vectors = scale * torch.randn(1, 2, 5, 3)
    batch = collate([([3, 4, 5, 6, 1], [3, 4, 5, 6, 1])], [0])
    tape = {(kind, point): [vectors] for kind in kinds for point in (Point.QUERIES, Point.CONTEXT)}
    point = Point.QUERIES if term is Term.QUERIES else Point.CONTEXT
    raw = grams(tape, batch, kinds[0], point).non_orthogonality()
    return float(penalty(Regulariser(term, 1.0, kinds), batch, tape)), float(raw.max())


def test_regularisers_scale_free():
    for term in (Term.QUERIES, Term.SPANS):
        (whole, raw), (halved, raw_halved) = (
            overlaps(term, (Kind.DECODER,), scale) for scale in (1.0, 0.5)
        )
        assert halved == pytest.approx(whole, rel=1e-5) and whole > 0
        assert raw_halved == pytest.approx(raw / 4, rel=1e-5)  # gained by nothing but shrinking


def test_regularisers_everywhere():
    kinds = [setting.kinds for setting in regularising.SETTINGS.values()]
    assert kinds == [tuple(Kind), (Kind.DECODER,)]
    assert set(regularising.TERMS) == set(Term) and regularising.STRENGTHS == (0.01, 0.1, 1.0)
    alone = [overlaps(Term.SPANS, (kind,), 1.0)[0] for kind in Kind]
    assert overlaps(Term.SPANS, tuple(Kind), 1.0)[0] == pytest.approx(sum(alone) / 3)


def test_regularisers_small_models():
    for setting in regularising.SETTINGS.values():
        assert (setting.layers, setting.width, setting.updates) == (6, 64, 400)
    corpora = [setting.corpus for setting in regularising.SETTINGS.values()]
    assert corpora == ["multi30k-de", "wikitext-2"] and regularising.SEEDS == 5


def test_layers_information():
    sample = objectives.Setting()
    assert (sample.kinds, sample.occurrences, sample.clusters) == (100, 300, 300)
    assert sample.sentences == 20_000 and SHUFFLES >= 1
    tokens, inner = torch.tensor([4, 3, 3]), torch.tensor([False, True, True])
    found = occurrences(tokens, frequent(tokens, 100), 300, 0, inner)  # no sentence's first
    assert found.tolist() == [1, 2]


def test_layers_replaced():
    replaced, hidden = MASKINGS.values()
    assert (replaced.hidden, replaced.random, hidden.hidden) == (0.0, 1.0, 1.0)
    among = replace(replaced, among=(5, 6))
    rows = [[5, 6, 7, 8, EOS]] * 50
    for masking, shown in ((among, {5, 6}), (hidden, {10})):
        pairs = masked_copies(rows, 10, 1, 0, masking)
        assert {a for one, two in pairs for a, b in zip(one, two, strict=True) if b} == shown


def test_layers_residual():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(9, 9, 2, 0, 8, 8, 2)).eval()
    states = token_states(model, [[3, 4, EOS]], torch.arange(2))
    assert len(states) == 3 and model.config.norm is NormPlacement.PRE
    with torch.inference_mode():
        top = model.encode(torch.tensor([[3, 4, EOS]]))[0][0, :2]
        assert not torch.allclose(states[-1], top)
        assert torch.allclose(model.encoder_norm(states[-1]), top, atol=1e-6)


def test_layers_models():
    setting = objectives.Setting()
    assert (setting.width, setting.updates, setting.corpus) == (128, 1_500, "multi30k-de")
    assert setting.copies == 10
    parameters = yaml.safe_load((NOTEBOOKS / "parameters" / "publish.yml").read_text())
    assert len(parameters[39]["trained"]) == 2
