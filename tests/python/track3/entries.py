"""The 46 entries of track 3 of modded-nanogpt (github.com/KellerJordan/modded-nanogpt, records/track_3_optimization/README.md at
commit f411b3d346): the rule of each one's matrices and its numbers, or why there is none. Rates fall as the caller's schedulers
say, but in entries that are about a schedule, whose steps are fewer here. Vectors, embedding and head are AdamW's, in a group of
their own."""

from collections import namedtuple

from contras import aurora, contra
from muons import adam, adamh, dynmuon, muon, muon_squared, muonh
from muowns import contra_muown, muown
from normuons import normuon, normuon_floored, normuonh
from second_order import klsoaph, pmuon, shampoo, sinksoap, soaph
from soaps import aurora_soap, clean_soap, contra_soap, soft_soap
from wrapped import ahead, anchored, averaged, backward, extrapolated, muloco, referred

Entry = namedtuple("Entry", "rules numbers")  # a rule, or one and its transforms, for each kind of matrices
Left = namedtuple("Left", "why")


def of(*rules, **numbers):
    return Entry([rule if isinstance(rule, tuple) else (rule,) for rule in rules], numbers)


COOL = dict(cool=0.002, end=35.0)
SHORT = dict(until=14.0, **COOL)
AHEAD = dict(ahead_beta=0.3, ahead_after=5.0, ahead_until=24.0, ahead_gamma=0.8)
ENTRIES = {
    1: of(muon, lr=0.02, decay=0.01),
    2: of(adam, warmup=9.0, total=40.0),
    3: of(muon, lr=0.025, decay=0.0125),
    4: of(adamh),
    5: of(muonh),
    6: of(muon, lr=0.025, decay=0.025),
    7: of(muon_squared),
    8: of(normuonh),
    9: of(normuon_floored),
    10: of(normuon),
    11: of(contra, total=40.0),
    12: of(muon, lr=0.035, decay=0.025),
    13: of((normuonh, muloco), muloco_every=7.0),
    14: of(contra_soap),
    15: Left("the sums of squares are of activations, which hooks of the model gather"),
    16: of(contra_soap, contra_soap.choose(gated=True)),
    17: of(aurora),
    18: of(pmuon),
    19: of(klsoaph, total=40.0),
    20: of(soft_soap, soft_soap.choose(value=True), soft_from=10.0, soft_to=20.0, **SHORT),
    21: of(shampoo),
    22: of(muon.choose(nest=False), lr=0.03, decay=0.015, mu=0.0),
    23: of(muown, total=25.0, lr=0.02),
    24: of(contra, total=30.0, part=0.8),
    25: of(klsoaph, total=40.0, part=0.7, power=1.2, least=0.1),
    26: of(sinksoap),
    27: of(soaph, total=40.0, power=1.2, least=0.1, eps=1e-2),
    28: of(dynmuon, total=60.0, middle=0.3, width=0.1),
    29: of(soft_soap.choose(brake=True), soft_soap.choose(brake=True, value=True), soft_from=10.0, soft_to=20.0, **SHORT),
    30: of(aurora_soap, aurora_soap.choose(value=True), **SHORT),
    31: of(contra_muown, total=25.0, until=20.0, lr=0.02),
    32: of((soft_soap, anchored), soft_from=10.0, soft_to=20.0, anchored_after=9.0, anchored_until=22.0, **SHORT),
    33: Left("triangular solves, and probes that are drawn anew"),
    34: of((aurora_soap, extrapolated), extrapolated_after=12.0, extrapolated_until=28.0, **SHORT),
    35: of(shampoo.choose(single=True), lr=0.01, betas=(0.9, 0.9), eps=1e-15, decay=0.1, every=1.0),
    36: of(muon, lr=0.025, decay=0.05),
    37: of(muonh),
    38: of((aurora_soap.choose(temper=True), backward, referred), backward_after=9.0, backward_end=30.0, referred_at=7.0,
            referred_end=30.0, **SHORT),
    39: of((muon, ahead), lr=0.035, decay=0.025, **{**AHEAD, "ahead_beta": 0.6}),
    40: of((aurora_soap, ahead), **AHEAD, **SHORT),
    41: Left("the norms of heads of another parameter, attn.proj's for attn.v"),
    42: of((aurora_soap, ahead, referred), referred_at=25.0, referred_end=29.0, **AHEAD, **SHORT),
    43: Left("as 41"),
    44: of((clean_soap, ahead), (clean_soap.choose(gated=True), ahead), **AHEAD, **COOL),
    45: of((clean_soap, ahead, averaged), averaged_after=25.0, averaged_horizon=5.0, averaged_end=29.0, **AHEAD, **COOL),
    46: of((clean_soap.choose(lines=True), ahead, averaged), decay=0.025, averaged_after=25.0, averaged_horizon=5.0,
            averaged_end=29.0, **AHEAD, **COOL),
}
