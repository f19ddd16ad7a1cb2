//===- MathCoefficients.h - polynomials of the vector math ------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Made by scripts/fit_math.py; the lowest power comes first.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_MATH_MATHCOEFFICIENTS_H
#define ANABRANCH_CODEGEN_MATH_MATHCOEFFICIENTS_H

namespace anabranch {
namespace codegen {
namespace coefficients {

/// (e^x - 1 - x) / x^2
/// on [-0.346608, 0.346608]; error 1.41e-8.
constexpr float expm1Tail[] = {0x1.fffffep-2f, 0x1.5554aap-3f, 0x1.55579ep-5f,
                               0x1.122c88p-7f, 0x1.6ab2a4p-10f};

/// (2^x - 1) / x
/// on [-0.5001, 0.5001]; error 2.76e-9.
constexpr float exp2m1[] = {0x1.62e43p-1f,  0x1.ebfbep-3f,   0x1.c6b058p-5f,
                            0x1.3b2a56p-7f, 0x1.5dbb86p-10f, 0x1.441f0cp-13f,
                            0x1.ceae86p-17f};

/// log(1 - erf(x)) / x less its float at zero
/// on [0, 3.95]; error 4.05e-9.
constexpr float erfExponent[] = {
    0x1.d0e746p-25f, -0x1.45f2fap-1f, -0x1.a4fa4ep-4f,
    0x1.39cd14p-6f,  0x1.50ca3p-13f,  -0x1.b5062cp-10f,
    0x1.4bc81cp-11f, -0x1.ed558p-14f, 0x1.3670fap-17f};

/// (log(1 + x) - x) / x^2
/// on [-0.292893, 0.414214]; error 1.95e-8.
constexpr float logTail[] = {-0x1.fffff8p-2f, 0x1.55560cp-2f,  -0x1.0004fcp-2f,
                             0x1.99466cp-3f,  -0x1.53aadep-3f, 0x1.292354p-3f,
                             -0x1.1a1d4ep-3f, 0x1.c5c98ap-4f,  -0x1.51bf72p-5f};

/// (tanh(x) - x) / x^3, in x^2
/// on [0, 0.316406]; error 1.44e-9.
constexpr float tanhTail[] = {-0x1.555548p-2f, 0x1.110c5ep-3f, -0x1.b905c4p-5f,
                              0x1.5812e2p-6f, -0x1.946302p-8f};

/// (sin(x) - x) / x^3, in x^2
/// on [0, 0.616974]; error 2.01e-10.
constexpr float sinTail[] = {-0x1.555556p-3f, 0x1.11117cp-7f, -0x1.a061f2p-13f,
                             0x1.7e666ap-19f};

/// (cos(x) - 1 + x^2 / 2) / x^4, in x^2
/// on [0, 0.616974]; error 7.24e-12.
constexpr float cosTail[] = {0x1.555556p-5f, -0x1.6c175ep-10f, 0x1.a071c6p-16f,
                             -0x1.361c22p-22f};

/// (atan(x) - x) / x^3, in x^2
/// on [0, 1]; error 2.68e-9.
constexpr float atanTail[] = {
    -0x1.55553ep-2f, 0x1.9991e4p-3f,  -0x1.2420aap-3f,
    0x1.c08f6cp-4f,  -0x1.5816c6p-4f, 0x1.da6728p-5f,
    -0x1.fe11fcp-6f, 0x1.64dd7cp-7f,  -0x1.d4cf38p-10f};

/// (asin(x) - x) / x^3, in x^2
/// on [0, 0.25]; error 4.86e-9.
constexpr float asinTail[] = {0x1.5555c8p-3f, 0x1.330204p-4f, 0x1.747bb6p-5f,
                              0x1.8c3e8p-6f, 0x1.595c26p-5f};

/// log2((1 + s) / (1 - s)) / s, in s^2
/// on [0, 0.0294402]; error 4.08e-17.
constexpr double log2Double[] = {0x1.71547652b82fep+1, 0x1.ec709dc3a08f6p-1,
                                 0x1.2776c50e495a2p-1, 0x1.a61763cf1bb03p-2,
                                 0x1.484a9c5d1e00fp-2, 0x1.0cb407bf5d076p-2,
                                 0x1.c0ce7d72a9c33p-3, 0x1.d8ee1065fc917p-3};

/// (2^x - 1) / x
/// on [-0.5001, 0.5001]; error 5.74e-14.
constexpr double exp2m1Double[] = {
    0x1.62e42fefa39f7p-1,  0x1.ebfbdff82b9dp-3,   0x1.c6b08d7043fbep-5,
    0x1.3b2ab6fc7e5dp-7,   0x1.5d87fe97919b6p-10, 0x1.430912d70f03bp-13,
    0x1.ffcb4d47ff172p-17, 0x1.62bbbe1126b19p-20, 0x1.b68fd17b984a2p-24,
    0x1.f3f43ff1571f9p-28};

/// sin(x) / x, in x^2
/// on [0, 0.616974]; error 4.34e-15.
constexpr double sinDouble[] = {0x1.fffffffffffd9p-1,  -0x1.5555555550e52p-3,
                                0x1.1111110bd4159p-7,  -0x1.a019f89486e8ep-13,
                                0x1.71d72a5dae91fp-19, -0x1.a94de847a44b9p-26};

/// cos(x), in x^2
/// on [0, 0.616974]; error 5.16e-17.
constexpr double cosDouble[] = {0x1.0p+0,
                                -0x1.fffffffffffa3p-2,
                                0x1.555555554f98p-5,
                                -0x1.6c16c1648c6ddp-10,
                                0x1.a019f8851865ep-16,
                                -0x1.27df6c3f350fap-22,
                                0x1.1b96057914f88p-29};

} // namespace coefficients
} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_MATH_MATHCOEFFICIENTS_H
