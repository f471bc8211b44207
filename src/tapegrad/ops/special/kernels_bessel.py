"""Bessel and Airy functions on arrays: see kernels.py."""

from __future__ import annotations

import math
from typing import Any

from .kernels import by_parts, horner, ratio

# fmt: off
# I₀(x) in x² / 4 up to 8; then √x e^-x I₀(x) in 1 / x, up to 20 and beyond. I₁(x) / (x / 2) alike.
I0_NEAR = (
    3.6454386812677436e-27, 4.940670282542572e-25, 1.35095827969477e-22, 2.5698743857514957e-20,
    4.3600362269175774e-18, 6.275862820937522e-16, 7.594079950279469e-14, 7.594056846699174e-12,
    6.151187413177668e-10, 3.936759885673581e-08, 1.9290123457790406e-06, 6.944444444424399e-05,
    0.0017361111111113758, 0.027777777777777565, 0.2500000000000001, 1.0, 1.0,
)
I0_MIDDLE = (
    -22778475585.66832, 34690159401.02065, -24367775152.206387, 10465750147.155006,
    -3072845839.826783, 653652121.0584394, -104220480.53510143, 12715200.41046574,
    -1201017.479717709, 88240.24334164517, -5032.587876905404, 220.8728708949257,
    -7.2666317289918805, 0.20609096158400814, 0.025100282657187136, 0.04989812667671574,
    0.39894213538197393,
)
I0_FAR = (
    251.2721342838758, -23.650043068486145, 5.031515941535621, 0.5700132675359485,
    0.2317908019163606, 0.0905420296919809, 0.04474288806933828, 0.02921940099696188,
    0.028050629104752742, 0.04986778505016131, 0.3989422804014327,
)
I1_NEAR = (
    5.833651333188183e-26, 7.413211040554544e-24, 1.891028804078631e-21, 3.3410044697092935e-19,
    5.231992159979275e-17, 6.90345927367201e-15, 7.594078567160322e-13, 6.834651294492253e-11,
    4.920949921538654e-09, 2.7557319204030443e-07, 1.157407407453132e-05, 0.00034722222222153507,
    0.0069444444444450686, 0.08333333333333304, 0.5000000000000001, 1.0,
)
I1_MIDDLE = (
    22420956909.97723, -34359838929.19125, 24272942694.18142, -10478529179.955957,
    3090775674.21922, -660169576.5146817, 105644188.71008117, -12930695.065223558,
    1224894.0765929262, -90226.29257842482, 5157.7007685187955, -226.85449869833485,
    7.46543526031955, -0.2232098770291028, -0.04370533191262442, -0.1496347226890514,
    0.39894243052302103,
)
I1_FAR = (
    -273.0381751092988, 25.195510418095306, -5.562070490349697, -0.6666468611675055,
    -0.2735835288121563, -0.11067126425296896, -0.05752643036826483, -0.04090716278336353,
    -0.0467510484996589, -0.1496033551505181, 0.39894228040143265,
)
# K₀(x) + log(x / 2) I₀(x) in x² up to 1, K₁ alike less 1 / x and over x; then √x e^x K(x) in 1 / x.
K0_NEAR = (
    4.9241892075301924e-12, 8.818563640355968e-10, 1.1570362119527242e-07,
    1.0214014083524546e-05, 0.0005451899602702101, 0.01441850523591188, 0.10569608377461687,
    -0.5772156649015329,
)
K0_FAR = ((
    0.01728524123417117, 2.1552458802740904, 43.025661775017504, 298.14250104304074,
    934.2132077567946, 1502.148979255853, 1320.2852638198751, 648.2749923355457,
    174.50825537686734, 23.70724414361339, 1.2533141373155001,
), (
    0.05024862234853272, 3.208609652012532, 49.38958100578779, 297.63288079807916,
    857.7596546042182, 1308.4105737708962, 1111.4746729100282, 533.6764557779474,
    141.54721070802063, 19.040644081373255, 1.0,
))
K1_NEAR = (
    -1.160287199168833e-15, -3.1205751324386636e-13, -6.54020010031254e-11,
    -1.0112909380707974e-08, -1.0892182538794238e-06, -7.493042905988387e-05,
    -0.0028371119837633696, -0.042049020943654196, 0.03860783245076643,
)
K1_FAR = ((
    0.12272641950394003, 5.961368800534551, 76.64343295275833, 409.6701699012692,
    1095.5544156168885, 1603.8457920337332, 1339.2329462910193, 642.2481322404268,
    171.83801133175785, 23.452253983075504, 1.2533141373155003,
), (
    0.006868229654470073, 1.0568205927758842, 23.252891234298087, 173.4336132881423,
    578.509693199864, 982.9390252115064, 907.4901261427531, 465.60585561901314,
    130.34763693725196, 18.337191369123474, 1.0,
))
# Up to 5 in x²: J₀ and J₁ / x over their first two zeros, Y₀ and Y₁ / x less their logarithms.
J0_NEAR = ((
    -4.8230883849825103e-14, 4.047102979992843e-11, -1.3805763587060335e-08,
    2.3247855826186743e-06, -0.0001879291745325269, 0.005674693325155617,
), (
    4.77669299642607e-13, 4.249648971509663e-10, 2.0051619095661044e-07, 6.015323154581745e-05,
    0.011150061508420385, 1.0,
))
J1_NEAR = ((
    -2.4131034291237636e-15, 2.322454235947709e-12, -9.242405319241069e-10,
    1.8522806086675606e-07, -1.8253714157160932e-05, 0.0006919228366408253,
), (
    2.7685529185922663e-13, 2.81476306760138e-10, 1.494336693572822e-07, 4.986921477582658e-05,
    0.010190529274624572, 1.0,
))
Y0_NEAR = (
    -8.490190195577884e-31, 7.899256327985279e-28, -5.315751201691637e-25, 2.986893002945303e-22,
    -1.4038647066839498e-19, 5.431059655316125e-17, -1.693271506067321e-14,
    4.143565735503777e-12, -7.693079900842326e-10, 1.03584760336256e-07, -9.495005205221479e-06,
    0.0005386026668616549, -0.016073968025938426, 0.17760601686906713, -0.07380429510868723,
)
Y1_NEAR = (
    2.351682982706404e-29, -2.029891958663369e-26, 1.2592795063570497e-23,
    -6.475922475743837e-21, 2.761624324377658e-18, -9.591484905689177e-16,
    2.6494814899169717e-13, -5.648024550383552e-11, 8.931879621161761e-09, -9.926740619423e-07,
    7.164268749973928e-05, -0.0029553053360798333, 0.05434868816051024, -0.19605709064623894,
)
# From 5 on in 1 / x²: the amplitudes that multiply cosine and sine, the latter times x.
P0 = ((
    2187192.6723768287, 11568232.107091863, 9298924.802582288, 2322134.4395449664,
    228623.2450942942, 9647.683068761906, 170.06119669671656, 1.0,
), (
    2585519.098927417, 12058279.981922321, 9442155.716713814, 2337263.9549598186,
    229283.9229240216, 9659.533288402767, 170.13150919671654, 1.0,
))
Q0 = ((
    -13422399.380259743, -81178902.77644993, -67757499.66712654, -18285273.792023566,
    -2068435.8194364605, -109025.31125161146, -2744.8277777477997, -31.163278926846814, -0.125,
), (
    260058528.21442363, 856298928.3248259, 610763934.7177424, 154913878.0218324,
    17028973.677614965, 884713.401050581, 22103.22655069255, 249.89216891477437, 1.0,
))
P1 = ((
    2163978.9706512913, 10273676.994055532, 8416117.996097095, 2159459.309891979,
    217717.86571377446, 9368.961214354315, 167.81867387676266, 1.0,
), (
    1565935.0980311185, 9522285.875776472, 8191832.4778274335, 2135312.706039404,
    216645.73191966096, 9349.452891976092, 167.70148637676272, 1.0,
))
Q1 = ((
    45018038.15894467, 229780306.2902351, 189645388.6957354, 51674601.155074455,
    5925415.352705917, 316558.92557452084, 8068.118896966307, 92.6021763805699, 0.375,
), (
    184302090.25552657, 701956638.4725999, 535891190.8255424, 141648359.79635262,
    16018763.451973343, 849880.7478176818, 21581.840709730088, 247.21257451485303, 1.0,
))
# Ai(x) in x up to 2; then x^¼ e^ζ Ai(x) in 1 / ζ. Left of zero in -x up to 4.5, over its first two
# zeros; then the amplitudes of sine and cosine in 1 / ζ², the latter times ζ.
AIRY_NEAR = ((
    8.536896475607721e-07, -2.2237683751380284e-05, 0.0002225246237624904,
    -0.0008480507537860435, -0.001615139069626226, 0.024064034111542034, -0.054372407734157455,
    -0.08262700272842831, 0.3550280538878172,
), (
    2.531566843196567e-06, 2.5831650921786544e-05, 0.00029288006448776086, 0.0019421605891226093,
    0.012284071859816979, 0.05321643399257524, 0.2086421435470941, 0.4962774043767584, 1.0,
))
AIRY_FAR = ((
    0.061119492912634125, 2.901505508966284, 25.73416369726916, 80.99998047799377,
    113.86792529823555, 78.85634971743241, 27.51448323448572, 4.564528783726142,
    0.28209479177387814,
), (
    0.37225802593984686, 13.118486066093599, 103.81657555796774, 308.64459446141086,
    420.3974079723637, 285.822188186242, 98.62766154753004, 16.25027768501338, 1.0,
))
AIRY_LEFT = (
    -3.3827526371278466e-20, 1.496102415605656e-18, -2.8573417381848034e-17,
    3.145118393771206e-16, -2.2878359671310467e-15, 1.166301017379976e-14,
    -3.5926067117946374e-14, 1.1921772933998205e-14, 3.7024255225003154e-13,
    -2.854849525297368e-12, 1.6271417049507793e-11, -4.7559665511734135e-12,
    6.02568701960876e-11, -1.4731696138562264e-09, -8.340323951334896e-09,
    -5.507567119074067e-09, 2.5501688229455066e-07, 1.6882361636117306e-06,
    2.7078852987090227e-06, -2.6131023873463445e-05, -0.00019380076147769022,
    -0.0004820824475451633, 0.0007268492070917035, 0.009278549625727696, 0.031108931890517486,
    0.05205144330153433, 0.03714434438500628,
)
AIRY_SINE = ((
    217119.21610364658, 792279.9054540214, 422506.24661971064, 66230.16311094901,
    3803.17011762586, 82.82148452872904, 0.5641895835477563,
), (
    414582.40178173315, 1427026.2812890715, 752891.734803848, 117632.24943123346,
    6746.33834455211, 146.8343926783117, 1.0,
))
AIRY_COSINE = ((
    930017.6925261038, 3644635.503168674, 1981520.4255398586, 339412.8762721987,
    23395.864384720848, 704.7200265637326, 9.024339648535358, 0.03917983219081641,
), (
    47836864.56448202, 113177122.30969006, 54658654.25569948, 8967322.141798785,
    606675.9185501571, 18111.44736808478, 230.8783481431722, 1.0,
))
# fmt: on

# The first zeros of J₀, J₁ and Ai(-x): a double and the digits that it lacks.
J0_ZEROS = ((2.404825557695773, -1.176691651530894e-16), (5.520078110286311, 8.088597146146722e-17))
J1_ZEROS = (
    (3.8317059702075125, -1.52691840900881e-16),
    (7.015586669815619, -9.41416565341039e-17),
)
AIRY_ZEROS = ((2.338107410459767, 3.912260409818305e-17), (4.08794944413097, 3.387261694242901e-16))


def from_zeros(zeros: Any, x: Any) -> Any:
    """The product of the distances from two zeros."""
    (a, a_rest), (b, b_rest) = zeros
    return ((x - a) - a_rest) * ((x - b) - b_rest)


def from_mirrored_zeros(zeros: Any, x: Any) -> Any:
    """(x² - a²) (x² - b²), with all digits near the zeros."""
    return from_zeros(zeros, x) * (x + zeros[0][0]) * (x + zeros[1][0])


# ---------------------------------------------------------------------- modified, first kind


def scaled_far(middle: Any, far: Any, xp: Any, x: Any) -> Any:
    """e^-x I(x) for x ≥ 8."""
    inverse = 1 / x
    parts = [
        (x < 20, lambda u: horner(middle, u)),
        (x >= 20, lambda u: horner(far, u)),
    ]
    return by_parts(xp, math.nan, parts, inverse) / xp.sqrt(x)


def i0_near(x: Any) -> Any:
    return horner(I0_NEAR, 0.25 * x * x)


def i1_near(x: Any) -> Any:
    return 0.5 * x * horner(I1_NEAR, 0.25 * x * x)


def i0(xp: Any, x: Any) -> Any:
    size = xp.abs(x)
    parts = [
        (size < 8, i0_near),
        (size >= 8, lambda x: xp.exp(x) * scaled_far(I0_MIDDLE, I0_FAR, xp, x)),
    ]
    return by_parts(xp, math.nan, parts, size)


def i0e(xp: Any, x: Any) -> Any:
    size = xp.abs(x)
    parts = [
        (size < 8, lambda x: xp.exp(-x) * i0_near(x)),
        (size >= 8, lambda x: scaled_far(I0_MIDDLE, I0_FAR, xp, x)),
    ]
    return by_parts(xp, math.nan, parts, size)


def odd(xp: Any, x: Any, value: Any) -> Any:
    return xp.where(x < 0, -value, value)


def i1(xp: Any, x: Any) -> Any:
    size = xp.abs(x)
    parts = [
        (size < 8, i1_near),
        (size >= 8, lambda x: xp.exp(x) * scaled_far(I1_MIDDLE, I1_FAR, xp, x)),
    ]
    return odd(xp, x, by_parts(xp, math.nan, parts, size))


def i1e(xp: Any, x: Any) -> Any:
    size = xp.abs(x)
    parts = [
        (size < 8, lambda x: xp.exp(-x) * i1_near(x)),
        (size >= 8, lambda x: scaled_far(I1_MIDDLE, I1_FAR, xp, x)),
    ]
    return odd(xp, x, by_parts(xp, math.nan, parts, size))


# ---------------------------------------------------------------------- modified, second kind


def k0_near(xp: Any, x: Any) -> Any:
    return horner(K0_NEAR, x * x) - xp.log(0.5 * x) * i0_near(x)


def k1_near(xp: Any, x: Any) -> Any:
    return 1 / x + (x * horner(K1_NEAR, x * x) + xp.log(0.5 * x) * i1_near(x))


def second_kind(xp: Any, x: Any, near: Any, table: Any, scaled: bool) -> Any:
    """K(x), or e^x K(x): infinite at zero, NaN left of it."""

    def far(x: Any) -> Any:
        value = ratio(table, 1 / x) / xp.sqrt(x)
        return value if scaled else xp.exp(-x) * value

    def inner(x: Any) -> Any:
        return xp.exp(x) * near(xp, x) if scaled else near(xp, x)

    parts = [
        ((x > 0) & (x <= 1), inner),
        (x > 1, far),
        (x == 0, lambda x: xp.full(x.shape, math.inf)),
    ]
    return by_parts(xp, math.nan, parts, x)


def k0(xp: Any, x: Any) -> Any:
    return second_kind(xp, x, k0_near, K0_FAR, False)


def k1(xp: Any, x: Any) -> Any:
    return second_kind(xp, x, k1_near, K1_FAR, False)


def k0e(xp: Any, x: Any) -> Any:
    return second_kind(xp, x, k0_near, K0_FAR, True)


def k1e(xp: Any, x: Any) -> Any:
    return second_kind(xp, x, k1_near, K1_FAR, True)


# ---------------------------------------------------------------------- oscillating


def waves(xp: Any, x: Any, order: int) -> tuple[Any, Any, Any, Any]:
    """For x ≥ 5: amplitudes P and Q, and √(2 / πx) cos χ and sin χ, where χ = x - (order + ½) π/2.

    J = P cos χ - Q sin χ and Y = P sin χ + Q cos χ.
    """
    inverse = 1 / x
    square = inverse * inverse
    sine, cosine = xp.sin(x), xp.cos(x)
    scale = xp.sqrt(1 / (math.pi * x))
    plus, minus = scale * (sine + cosine), scale * (sine - cosine)
    if order == 0:
        return ratio(P0, square), inverse * ratio(Q0, square), plus, minus
    return ratio(P1, square), inverse * ratio(Q1, square), minus, -plus


def j_far(xp: Any, x: Any, order: int) -> Any:
    p, q, cosine, sine = waves(xp, x, order)
    return p * cosine - q * sine


def y_far(xp: Any, x: Any, order: int) -> Any:
    p, q, cosine, sine = waves(xp, x, order)
    return p * sine + q * cosine


def j0_near(x: Any) -> Any:
    return from_mirrored_zeros(J0_ZEROS, x) * ratio(J0_NEAR, x * x)


def j1_near(x: Any) -> Any:
    return x * from_mirrored_zeros(J1_ZEROS, x) * ratio(J1_NEAR, x * x)


def j0(xp: Any, x: Any) -> Any:
    size = xp.abs(x)
    parts = [(size <= 5, j0_near), (size > 5, lambda x: j_far(xp, x, 0))]
    return by_parts(xp, math.nan, parts, size)


def j1(xp: Any, x: Any) -> Any:
    size = xp.abs(x)
    parts = [(size <= 5, j1_near), (size > 5, lambda x: j_far(xp, x, 1))]
    return xp.copysign(1.0, x) * by_parts(xp, math.nan, parts, size)


def y_by_parts(xp: Any, x: Any, order: int, near: Any) -> Any:
    """Y of an order: `near` up to 5, the expansion beyond it, nan for negative numbers."""
    parts = [
        ((x > 0) & (x <= 5), near),
        (x > 5, lambda x: y_far(xp, x, order)),
        (x == 0, lambda x: xp.full(x.shape, -math.inf)),
    ]
    return by_parts(xp, math.nan, parts, x)


def y0(xp: Any, x: Any) -> Any:
    def near(x: Any) -> Any:
        return horner(Y0_NEAR, x * x) + 2 / math.pi * xp.log(x) * j0_near(x)

    return y_by_parts(xp, x, 0, near)


def y1(xp: Any, x: Any) -> Any:
    def near(x: Any) -> Any:
        return x * horner(Y1_NEAR, x * x) + 2 / math.pi * (xp.log(x) * j1_near(x) - 1 / x)

    return y_by_parts(xp, x, 1, near)


def spherical_j0(xp: Any, x: Any) -> Any:
    """sin(x) / x: one at zero, zero at infinity."""
    value = xp.sin(x) / xp.where(x == 0, 1, x)
    return xp.where(xp.isinf(x), 0, xp.where(x == 0, 1, value))


def airy_ai(xp: Any, x: Any) -> Any:
    """Ai(x); infinity is no number here, as PyTorch has it."""

    def right(x: Any) -> Any:
        root = xp.sqrt(x)
        zeta = 2 / 3 * x * root
        return xp.exp(-zeta) * ratio(AIRY_FAR, 1 / zeta) / xp.sqrt(root)

    def left(x: Any) -> Any:
        return from_zeros(AIRY_ZEROS, -x) * horner(AIRY_LEFT, -x)

    def far_left(x: Any) -> Any:
        root = xp.sqrt(-x)
        zeta = 2 / 3 * -x * root
        inverse = 1 / zeta
        square = inverse * inverse
        sine, cosine = xp.sin(zeta), xp.cos(zeta)
        # sin and cos of ζ + π/4; the amplitudes have the factor 1 / √π.
        wave = (sine + cosine) * ratio(AIRY_SINE, square)
        wave -= (cosine - sine) * inverse * ratio(AIRY_COSINE, square)
        return math.sqrt(0.5) * wave / xp.sqrt(root)

    parts = [
        ((x >= 0) & (x < 2), lambda x: ratio(AIRY_NEAR, x)),
        ((x >= 2) & (x < 104), right),
        ((x >= 104) & ~xp.isinf(x), xp.zeros_like),
        ((x < 0) & (x > -4.5), left),
        (x <= -4.5, far_left),
    ]
    return by_parts(xp, math.nan, parts, x)
