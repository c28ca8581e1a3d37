"""The fit of a given layer with any convex loss, and with a free constant.

With the channel's s, E g, E zeta g, E g^2 at every node, the matrices Sigma_k of ``layer``, zeta
the unit vector along what the directions leave of the teacher's, c_k = mu1_k o W_perp^T zeta and
S_k = omega_k s_k, the fit is the fixed point of

    A   = lam + sum_k S_k Sigma_k,   V_k = (1/n) Tr Sigma_k A^-1
    b   = A^-1 r,   r = sum_k omega_k [(E g + s m)_k mu0_k + (E zeta g + s t)_k c_k]
    m_k = mu0_k.b,   t_k = c_k.b
    v_k = b^T (Sigma_k - mu0_k mu0_k^T) b + sum_l Q_kl omega_l E g_l^2.

Where the teacher has several terms, zeta, c, t and E zeta g are those of every coordinate of
``terms``, over which products are summed.

It is the ridge fit with weights S and labels f0 + g/s, which are y itself for the square loss.

Constant b0, not penalised: the features are (1, phi). With o = sum_k S_k mu0_k, z = A^-1 o,
sigma = sum_k S_k - o.z and e = (1, -z), the inverse is diag(0, A^-1) + e e^T/sigma, so that

    b0 = (sum_k omega_k (E g + s m)_k - z.r)/sigma,   b = A^-1 r - b0 z,   m_k = b0 + mu0_k.b
    V_k gains [z^T (Sigma_k - mu0_k mu0_k^T) z + (1 - mu0_k.z)^2]/(n sigma)

and Q is with (1, mu0_k) in the place of mu0_k: with w the weights it is multiplied by,
X = sum_l w_l Sigma_l, p = sum_l w_l mu0_l, q = A^-1 (p - X z), c = sum_l w_l - 2 p.z + z^T X z,

    A^-1 X A^-1 - (z q^T + q z^T)/sigma + z z^T c/sigma^2,   q/sigma - z c/sigma^2,   c/sigma^2

are the three blocks of the matrix whose traces with Sigma_k are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from firststep.errors import NotConverged
from firststep.theory.channel import Channel, Output
from firststep.theory.given_layer.layer import Layer, quadratic_forms
from firststep.theory.loss_fixed_point import FixedPoint, Start, cold, fixed_point
from firststep.theory.terms_channel import TermsChannel

if TYPE_CHECKING:
    from firststep.typing import Array, Float

TOLERANCE = 1e-7
_ROUGH = 1e-3  # of fits on the way to a smaller ridge
_PATH = tuple(10.0**power for power in range(1, -13, -1))  # ridges on the way to a small one


class _Constant(NamedTuple):
    """What the free constant adds to the inverse."""

    z: Float[Array, " N"]
    total: float  # sigma
    seen: Float[Array, " K"]  # 1 - mu0_k.z


@dataclass(frozen=True)
class LossFit:
    """A layer, a channel on its nodes, and whether there is a free constant."""

    layer: Layer
    channel: Channel | TermsChannel
    # W_perp^T zeta, where the matrices live; a row for each coordinate, where there are several.
    along: Float[Array, "*terms N"]
    has_constant: bool

    def path(self, ridges: tuple[float, ...]) -> dict[float, FixedPoint]:
        """The fits of all ridges, the largest first, each from the one before."""
        found: dict[float, FixedPoint] = {}
        before: Start | None = None
        for ridge in sorted(set(ridges), reverse=True):
            found[ridge] = self._solved(ridge, before)
            before = Start(found[ridge].output)
        return found

    def _solved(self, ridge: float, before: Start | None) -> FixedPoint:
        omega = self.layer.omega
        start = before or self._cold(ridge)
        try:
            return fixed_point(partial(self.image, ridge=ridge), start, omega, TOLERANCE)
        except NotConverged:
            if ridge >= _PATH[0]:
                raise
        start = self._cold(_PATH[0])
        for larger in (each for each in _PATH if each > ridge):  # the long way
            near = fixed_point(partial(self.image, ridge=larger), start, omega, _ROUGH)
            start = Start(near.output)
        return fixed_point(partial(self.image, ridge=ridge), start, omega, TOLERANCE)

    def _cold(self, ridge: float) -> Start:
        omega = self.layer.omega
        slopes = 1 if self.along.ndim == 1 else len(self.along)
        leverage = self.layer.traces(self.layer.inverse(omega / 2, ridge))
        return Start(cold(omega, leverage, slopes))

    def image(self, output: Output, ridge: float) -> Output:
        """What the fit makes of an output."""
        layer, omega = self.layer, self.layer.omega
        put, get, mean, slope = layer.matrices.put, layer.matrices.get, layer.mean, layer.slope
        pull = self.channel.pull(output)
        weights = omega * pull.slope
        first = omega * (pull.mean + pull.slope * output.mean)
        second = omega * (pull.along + pull.slope * output.slope)
        right = put(first @ mean.nodes) @ mean.neurons
        linear = (put(second @ slope.nodes) @ slope.neurons) * self.along
        right = right + (linear if linear.ndim == 1 else linear.sum(0))
        inverse = layer.inverse(weights, ridge)
        leverage, b, b0, constant = layer.traces(inverse), inverse @ right, 0.0, None
        if self.has_constant:
            constant = self._constant(inverse, weights)
            b0 = (float(first.sum()) - float(get(constant.z @ right))) / constant.total
            b = b - b0 * constant.z
            extra = self._across(constant.z) + constant.seen**2
            leverage = leverage + extra / (layer.samples * constant.total)
        noise = self._response(inverse, omega * pull.square, constant)
        return Output(
            leverage=leverage,
            mean=b0 + mean.nodes @ get(mean.neurons @ b),
            slope=(slope.nodes @ get(slope.neurons @ (self.along * b).T)).T,
            variance=self._across(b) + noise,
        )

    def _across(self, b: Float[Array, " N"]) -> Float[Array, " K"]:
        """b^T (Sigma_k - mu0_k mu0_k^T) b."""
        layer, get = self.layer, self.layer.matrices.get
        scaled = layer.slope.neurons * b
        forms = quadratic_forms(layer.slope.nodes, get((scaled @ layer.gram) @ scaled.T))
        return forms + get(layer.scatter @ (b * b))

    def _constant(self, inverse: Float[Array, "N N"], weights: Float[Array, " K"]) -> _Constant:
        get, put, mean = self.layer.matrices.get, self.layer.matrices.put, self.layer.mean
        o = put(weights @ mean.nodes) @ mean.neurons
        z = inverse @ o
        total = float(weights.sum()) - float(get(o @ z))
        if not total > 0:
            raise NotConverged("the free constant is a feature already: give the fit no intercept")
        return _Constant(z, total, 1 - mean.nodes @ get(mean.neurons @ z))

    def _response(
        self, inverse: Float[Array, "N N"], weights: Float[Array, " K"], constant: _Constant | None
    ) -> Float[Array, " K"]:
        """Q weights."""
        layer = self.layer
        if constant is None:
            return layer.response(inverse, weights)
        get, put, mean, xp = layer.matrices.get, layer.matrices.put, layer.mean, layer.matrices.xp
        z, total, _ = constant
        mixed = layer.mix(weights)
        p, image = put(weights @ mean.nodes) @ mean.neurons, mixed @ z
        q = inverse @ (p - image)
        c = float(weights.sum()) - 2 * float(get(p @ z)) + float(get(z @ image))
        block = layer.matrices.symmetric_product(inverse @ mixed, inverse)
        crossed = xp.outer(z, q)
        block = block - (crossed + crossed.T) / total + xp.outer(z, z) * (c / total**2)
        side = mean.nodes @ get(mean.neurons @ (q / total - z * (c / total**2)))
        return layer.traces(block) + (c / total**2 + 2 * side) / layer.samples
