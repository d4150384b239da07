"""Transforms of published optimizers, for any rule: `rule.optimizer(transforms=[gallery.cautious])`."""

import altgrad.language as ag

__all__ = ["cautious", "centralize", "ema", "grokfast", "hyperball", "lookahead", "mars"]


@ag.transform
def cautious(p: ag.Param, g: ag.Grad, w: ag.New, *, least=1e-3):
    """Goes only where the step descends along this gradient, by so much more (Liang et al., 2024). A decay that is part of
    the rule is part of the step."""
    goes = (w - p) * g < 0
    share = ag.maximum(goes.count() / ag.numel, least)
    return ag.where(goes, p + (w - p) / share, p)


@ag.transform
def centralize(g: ag.Grad):
    """Takes the mean of each row off the gradient of a matrix or of filters (Yong et al., 2020). Vectors keep theirs."""
    return ag.where(ag.unit < ag.numel, g - g.mean("unit"), g)


@ag.transform
def grokfast(g: ag.Grad, ema: ag.State, t: ag.Step, *, alpha=0.98, lamb=2.0):
    """Adds the slow part of the gradients, their average, once more (Lee et al., 2024)."""
    ema = ag.where(t == 1, g, ag.lerp(ema, g, 1 - alpha))
    return g + lamb * ema, dict(ema=ema)


@ag.transform
def mars(g: ag.Grad, last: ag.State, t: ag.Step, *, gamma=0.025, beta=0.95, most=1.0):
    """Corrects the gradient by its change since the last step, and bounds its norm (Yuan et al., 2024)."""
    c = g + gamma * beta / (1 - beta) * ag.where(t == 1, 0.0, g - last)
    return c / ag.maximum(c.norm() / most, 1.0), dict(last=g)


@ag.transform
def ema(w: ag.New, weights: ag.State, t: ag.Step, *, decay=0.999):
    """Keeps an average of the weights; it begins as those after the first step."""
    return w, dict(weights=ag.where(t == 1, w, ag.lerp(weights, w, 1 - decay)))


@ag.transform
def lookahead(p: ag.Param, w: ag.New, slow: ag.State, t: ag.Step, *, every=6.0, alpha=0.5):
    """Every so often goes back to where slow weights have gone by a part of the way (Zhang et al., 2019)."""
    slow, now = ag.where(t == 1, p, slow), t % every == 0
    met = ag.lerp(slow, w, alpha)
    return ag.where(now, met, w), dict(slow=ag.where(now, met, slow))


@ag.transform
def hyperball(p: ag.Param, w: ag.New):
    """Keeps the norm that the parameter had before the step (Wen et al., 2025)."""
    return w * (p.norm() / w.norm())
