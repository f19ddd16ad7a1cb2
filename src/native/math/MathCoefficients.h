//===- MathCoefficients.h - polynomials of the vector math ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// scripts/fit_math.py writes this file. The coefficient of the lowest power
// comes first.

#ifndef ANABRANCH_NATIVE_MATH_MATHCOEFFICIENTS_H
#define ANABRANCH_NATIVE_MATH_MATHCOEFFICIENTS_H

namespace anabranch {
namespace native {
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

/// (2^x - 1) / x
/// on [-0.5001, 0.5001]; error 0.000157.
constexpr float exp2m1Narrow[] = {0x1.62eef6p-1f, 0x1.f0ee1cp-3f,
                                  0x1.cbca8ap-5f};

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

/// erf(x) around the multiples of 1/4, around 0 less x times its float slope;
/// error 1.84e-8.
constexpr float erfTable[6][16] = {
    {0x0.0p+0f, 0x1.1af54ep-2f, 0x1.0a7ef6p-1f, 0x1.6c1c98p-1f, 0x1.af767ap-1f,
     0x1.d8865ep-1f, 0x1.eea556p-1f, 0x1.f92d08p-1f, 0x1.fd9ae2p-1f,
     0x1.ff4048p-1f, 0x1.ffcaa8p-1f, 0x1.fff2dp-1f, 0x1.fffd1ap-1f,
     0x1.ffff7p-1f, 0x1.ffffe8p-1f, 0x1.fffffcp-1f},
    {-0x1.098b7ap-24f, 0x1.0f5d18p+0f, 0x1.c1efccp-1f, 0x1.492e44p-1f,
     0x1.a911f2p-2f, 0x1.e4653p-3f, 0x1.e72372p-4f, 0x1.b0552ep-5f,
     0x1.529b9cp-6f, 0x1.d41438p-8f, 0x1.1d831ap-9f, 0x1.3360dcp-11f,
     0x1.24091p-13f, 0x1.e9b67p-16f, 0x1.6a5a2ap-18f, 0x1.d938bcp-21f},
    {0x0.0p+0f, -0x1.0f5baap-2f, -0x1.c1eep-2f, -0x1.edc46ep-2f,
     -0x1.a9121ap-2f, -0x1.2ecp-2f, -0x1.6d5bfap-3f, -0x1.7a4bd6p-4f,
     -0x1.529bc2p-5f, -0x1.0749b8p-6f, -0x1.64dd6ep-8f, -0x1.a695cep-10f,
     -0x1.b5f208p-12f, -0x1.8dbcap-14f, -0x1.3cdfe2p-16f, -0x1.bb475cp-19f},
    {-0x1.81265p-2f, -0x1.3c9c9ep-2f, -0x1.2bfcdcp-3f, 0x1.b6c25p-6f,
     0x1.1b5f34p-3f, 0x1.571ce4p-3f, 0x1.1c2aeap-3f, 0x1.714aaep-4f,
     0x1.8b0cep-5f, 0x1.63f032p-6f, 0x1.119c52p-7f, 0x1.69c902p-9f,
     0x1.9da814p-11f, 0x1.9a89f6p-13f, 0x1.62a86ap-15f, 0x1.0b4182p-17f},
    {0x0.0p+0f, 0x1.022272p-3f, 0x1.748e8ep-3f, 0x1.3351f2p-3f, 0x1.1bcffap-4f,
     -0x1.73186p-8f, -0x1.69a6a2p-5f, -0x1.88545ep-5f, -0x1.1a14ep-5f,
     -0x1.39c52cp-6f, -0x1.1caef6p-7f, -0x1.b024d6p-9f, -0x1.16553p-10f,
     -0x1.33010ep-12f, -0x1.23bc42p-14f, -0x1.dfc1eep-17f},
    {0x1.cb9cf2p-4f, 0x1.4b1678p-4f, 0x1.0b60fp-7f, -0x1.ade442p-5f,
     -0x1.1986dep-4f, -0x1.81ec92p-5f, -0x1.ec92a8p-7f, 0x1.a583cep-8f,
     0x1.a97cep-7f, 0x1.5c8a9cp-7f, 0x1.920268p-8f, 0x1.6bd9a2p-9f,
     0x1.0daf1cp-10f, 0x1.4ea114p-12f, 0x1.6017ap-14f, 0x1.3cd13cp-16f}};

/// Centers of the pieces of tanhTable.
constexpr float tanhCenters[32] = {
    0x1.2p+1f, 0x1.6p+1f, 0x1.ap+1f,      0x1.ep+1f, 0x1.2p+2f, 0x1.6p+2f,
    0x1.ap+2f, 0x1.ep+2f, 0x1.11999ap+3f, 0x1.1p+3f, 0x1.1p+3f, 0x0.0p+0f,
    0x1.2p-4f, 0x1.6p-4f, 0x1.ap-4f,      0x1.ep-4f, 0x1.2p-3f, 0x1.6p-3f,
    0x1.ap-3f, 0x1.ep-3f, 0x1.2p-2f,      0x1.6p-2f, 0x1.ap-2f, 0x1.ep-2f,
    0x1.2p-1f, 0x1.6p-1f, 0x1.ap-1f,      0x1.ep-1f, 0x1.2p+0f, 0x1.6p+0f,
    0x1.ap+0f, 0x1.ep+0f};

/// tanh(x) by quarters of an octave, as the low bits of bits(x) >> 21 say;
/// error 1.11e-8.
constexpr float tanhTable[6][32] = {
    {0x1.f4bfd6p-1f, 0x1.fbd50ap-1f, 0x1.fe767ap-1f, 0x1.ff6f18p-1f,
     0x1.ffdfa6p-1f, 0x1.fffbap-1f,  0x1.ffff68p-1f, 0x1.ffffecp-1f,
     0x1.fffffep-1f, 0x1.fffffep-1f, 0x1.fffffep-1f, 0x0.0p+0f,
     0x1.1f86bep-4f, 0x1.5f22d2p-4f, 0x1.9e9356p-4f, 0x1.ddd092p-4f,
     0x1.1e1ddp-3f,  0x1.5c9308p-3f, 0x1.9a5f1cp-3f, 0x1.d7665cp-3f,
     0x1.18a39ap-2f, 0x1.52c2c6p-2f, 0x1.8a87e2p-2f, 0x1.bfae6ap-2f,
     0x1.05087p-1f,  0x1.3157ep-1f,  0x1.5789p-1f,   0x1.77d838p-1f,
     0x1.9e5cb6p-1f, 0x1.c278a6p-1f, 0x1.d9c6fcp-1f, 0x1.e8789ep-1f},
    {0x1.641088p-5f,  0x1.09a7acp-6f,  0x1.88ef74p-8f,  0x1.21a7b8p-9f,
     0x1.02c148p-11f, 0x1.18359ap-14f, 0x1.2f62f2p-17f, 0x1.4878f4p-20f,
     0x1.41cc5cp-23f, 0x1.63a1aap-23f, 0x1.63a1aap-23f, 0x1.0p+0f,
     0x1.fd7a22p-1f,  0x1.fc3cbep-1f,  0x1.fac13ep-1f,  0x1.f9085ap-1f,
     0x1.f601cap-1f,  0x1.f12bp-1f,    0x1.eb715ap-1f,  0x1.e4dfb2p-1f,
     0x1.d98b36p-1f,  0x1.c7f724p-1f,  0x1.b3ff2ep-1f,  0x1.9e23aep-1f,
     0x1.7aeae6p-1f,  0x1.49e6cp-1f,   0x1.197fcep-1f,  0x1.d834d2p-2f,
     0x1.615002p-2f,  0x1.cea744p-3f,  0x1.265e34p-3f,  0x1.6fcfa6p-4f},
    {-0x1.5c3a3ep-5f,  -0x1.077904p-6f,  -0x1.87b86cp-8f,  -0x1.214eaap-9f,
     -0x1.0244b4p-11f, -0x1.17bd22p-14f, -0x1.2ee2a2p-17f, -0x1.47ee56p-20f,
     -0x1.4103e8p-23f, -0x1.630ba4p-23f, -0x1.630ba4p-23f, 0x0.0p+0f,
     -0x1.1e1c0ap-4f,  -0x1.5c8e36p-4f,  -0x1.9a5416p-4f,  -0x1.d75004p-4f,
     -0x1.18883cp-3f,  -0x1.5279fep-3f,  -0x1.89e50ep-3f,  -0x1.be6cb8p-3f,
     -0x1.038f7p-2f,   -0x1.2daf98p-2f,  -0x1.4ff712p-2f,  -0x1.6a1d38p-2f,
     -0x1.825de4p-2f,  -0x1.897d22p-2f,  -0x1.79c0e6p-2f,  -0x1.5aa224p-2f,
     -0x1.1df056p-2f,  -0x1.970ed2p-3f,  -0x1.1064bap-3f,  -0x1.5ee8aap-4f},
    {0x1.bbce98p-6f,  0x1.59933p-7f,   0x1.0394eap-8f,  0x1.80e4f8p-10f,
     0x1.583eeep-12f, 0x1.750528p-15f, 0x1.93e86cp-18f, 0x1.b54f84p-21f,
     0x1.ac1e24p-24f, 0x1.d9782cp-24f, 0x1.d9782cp-24f, -0x1.55553ep-2f,
     -0x1.4ea16p-2f,  -0x1.4b5adp-2f,  -0x1.477428p-2f, -0x1.42f17cp-2f,
     -0x1.3b135p-2f,  -0x1.2ea3fcp-2f, -0x1.202a34p-2f, -0x1.0fdf04p-2f,
     -0x1.e91ef8p-3f, -0x1.98588ep-3f, -0x1.4272p-3f,   -0x1.d71f7ep-4f,
     -0x1.bd0ce8p-5f, 0x1.d76898p-7f,  0x1.072cc4p-4f,  0x1.8434bp-4f,
     0x1.c68efep-4f,  0x1.97d8e2p-4f,  0x1.33df76p-4f,  0x1.a85c5p-5f},
    {-0x1.96017cp-7f,  -0x1.5195b4p-8f,  -0x1.03751cp-9f,  -0x1.83e856p-11f,
     -0x1.69e16cp-13f, -0x1.8893ecp-16f, -0x1.a9269ep-19f, -0x1.cc51eap-22f,
     -0x1.c7a6d6p-25f, -0x1.f261fap-25f, -0x1.f261fap-25f, 0x0.0p+0f,
     0x1.7aa3e6p-5f,   0x1.cb9816p-5f,   0x1.0d55c6p-4f,   0x1.33c776p-4f,
     0x1.6b051ap-4f,   0x1.af9b74p-4f,   0x1.ed77f8p-4f,   0x1.11e9fp-3f,
     0x1.32dfc6p-3f,   0x1.4fff76p-3f,   0x1.5c02d4p-3f,   0x1.58399ep-3f,
     0x1.39daccp-3f,   0x1.e93b12p-4f,   0x1.47435ap-4f,   0x1.633ac2p-5f,
     0x1.e50f26p-9f,   -0x1.599f28p-6f,  -0x1.9b95e8p-6f,  -0x1.5596cp-6f},
    {0x1.04948ep-8f,  0x1.f67694p-10f, 0x1.947e68p-11f, 0x1.334ccap-12f,
     0x1.20297p-14f,  0x1.3935f8p-17f, 0x1.534986p-20f, 0x1.6f5dd4p-23f,
     0x1.6b7d3ep-26f, 0x1.8dbebep-26f, 0x1.8dbebep-26f, 0x1.107864p-3f,
     0x1.05bd3p-3f,   0x1.003d74p-3f,  0x1.f37448p-4f,  0x1.e47db8p-4f,
     0x1.cab5e8p-4f,  0x1.a2867cp-4f,  0x1.74c974p-4f,  0x1.42ad2cp-4f,
     0x1.e4bd18p-5f,  0x1.068ecep-5f,  0x1.897e36p-8f,  -0x1.18309ep-6f,
     -0x1.630e4ap-5f, -0x1.f7f4aep-5f, -0x1.00ac4ap-4f, -0x1.b2c93ap-5f,
     -0x1.070c46p-5f, -0x1.39168cp-7f, 0x1.696382p-10f, 0x1.2d31fep-8f}};

/// 1 - erf(x / sqrt(2)) around the multiples of 13/32; error 7.23e-5.
constexpr float normalTable[6][16] = {
    {0x1.0p+0f, 0x1.5e7e82p-1f, 0x1.aa803cp-2f, 0x1.c8944cp-3f, 0x1.aaa65ap-4f,
     0x1.59f1f6p-5f, 0x1.e49ce6p-7f, 0x1.2432ecp-8f, 0x1.2e8708p-10f,
     0x1.0c5d4ap-12f, 0x1.9744aep-15f, 0x1.08007ep-17f, 0x1.2415bcp-20f,
     0x1.138a62p-23f, 0x1.baf4c8p-27f, 0x0.0p+0f},
    {-0x1.988452p-1f, -0x1.7828dep-1f, -0x1.25ab66p-1f, -0x1.84c6cap-2f,
     -0x1.b4618p-3f, -0x1.9f4b5p-4f, -0x1.4f18ccp-5f, -0x1.ca7fdep-7f,
     -0x1.09f35p-8f, -0x1.05961ap-10f, -0x1.b44b9p-13f, -0x1.347c4ep-15f,
     -0x1.71dbdep-18f, -0x1.77f7b4p-21f, -0x1.44059p-24f, 0x0.0p+0f},
    {-0x1.27239ap-20f, 0x1.319e7ap-3f, 0x1.dd33b6p-3f, 0x1.d9d184p-3f,
     0x1.629036p-3f, 0x1.a5cafp-4f, 0x1.98688ap-5f, 0x1.45f70ap-6f,
     0x1.b0265ap-8f, 0x1.de26cp-10f, 0x1.bb003cp-12f, 0x1.587dcp-14f,
     0x1.c27a3cp-17f, 0x1.eff208p-20f, 0x1.cc2884p-23f, 0x0.0p+0f},
    {0x1.10634ap-3f, 0x1.a2bc78p-4f, 0x1.0a16p-5f, -0x1.f72bfap-6f,
     -0x1.dd3ddap-5f, -0x1.b0aeeep-5f, -0x1.13f42ep-5f, -0x1.0ec92p-6f,
     -0x1.a7f4a4p-8f, -0x1.0dc2c4p-9f, -0x1.1a22f8p-11f, -0x1.e87e74p-14f,
     -0x1.5fc2aap-16f, -0x1.a6e2aep-19f, -0x1.a9819cp-22f, 0x0.0p+0f},
    {-0x1.6ec4f8p-13f, -0x1.1e07f8p-5f, -0x1.7153fp-5f, -0x1.dcea8ap-6f,
     -0x1.5c3936p-8f, 0x1.375e04p-7f, 0x1.8de99ep-7f, 0x1.144c6ap-7f,
     0x1.11d6aep-8f, 0x1.a1e1e4p-10f, 0x1.fb7be2p-12f, 0x1.f3540cp-14f,
     0x1.926fa4p-16f, 0x1.0b9ddap-18f, 0x1.272bdp-21f, 0x0.0p+0f},
    {-0x1.3d8adp-6f, -0x1.91891ep-7f, 0x1.53bd48p-9f, 0x1.7d73cep-7f,
     0x1.50a61cp-7f, 0x1.fe2eep-9f, -0x1.e7bf1p-11f, -0x1.2d19dcp-9f,
     -0x1.bdf626p-10f, -0x1.b04ec8p-11f, -0x1.377696p-12f, -0x1.5e1c26p-14f,
     -0x1.3aa02cp-16f, -0x1.ca99dcp-19f, -0x1.119e2ep-21f, 0x0.0p+0f}};

/// 1 - erf(x / sqrt(2)) around the multiples of 13/32; error 0.000864.
constexpr float normalTableBrief[5][16] = {
    {0x1.0p+0f, 0x1.5e7e8p-1f, 0x1.aa803ep-2f, 0x1.c89458p-3f, 0x1.aaa672p-4f,
     0x1.59f20ap-5f, 0x1.e49cccp-7f, 0x1.24326cp-8f, 0x1.2e8572p-10f,
     0x1.0c59f8p-12f, 0x1.973a72p-15f, 0x1.07f446p-17f, 0x1.23fe7ep-20f,
     0x1.1366dcp-23f, 0x1.ba9d22p-27f, 0x0.0p+0f},
    {-0x1.9883ep-1f, -0x1.782804p-1f, -0x1.25ab9p-1f, -0x1.84c85ap-2f,
     -0x1.b4644p-3f, -0x1.9f4d62p-4f, -0x1.4f17e8p-5f, -0x1.ca76dp-7f,
     -0x1.09e634p-8f, -0x1.057d76p-10f, -0x1.b4072cp-13f, -0x1.3432b2p-15f,
     -0x1.715ddap-18f, -0x1.774a28p-21f, -0x1.434328p-24f, 0x0.0p+0f},
    {-0x1.154f7ap-13f, 0x1.31a31cp-3f, 0x1.dd30f8p-3f, 0x1.d9c86p-3f,
     0x1.628758p-3f, 0x1.a5c3ccp-4f, 0x1.986e16p-5f, 0x1.461076p-6f,
     0x1.b0779cp-8f, 0x1.ded23ep-10f, 0x1.bc0c4cp-12f, 0x1.59c2cp-14f,
     0x1.c4edd2p-17f, 0x1.f3c39p-20f, 0x1.d0fc2p-23f, 0x0.0p+0f},
    {0x1.1409dep-3f, 0x1.a0268p-4f, 0x1.0b269ep-5f, -0x1.ed72acp-6f,
     -0x1.d8f62ap-5f, -0x1.af10b6p-5f, -0x1.1453dep-5f, -0x1.10a6a4p-6f,
     -0x1.ad7106p-8f, -0x1.130746p-9f, -0x1.21a45ep-11f, -0x1.f927a2p-14f,
     -0x1.6e86a4p-16f, -0x1.bc12c8p-19f, -0x1.c259d2p-22f, 0x0.0p+0f},
    {-0x1.4aeb2cp-7f, -0x1.1fc8a6p-5f, -0x1.70454cp-5f, -0x1.d5f774p-6f,
     -0x1.414012p-8f, 0x1.3cce92p-7f, 0x1.8bc422p-7f, 0x1.0f69e4p-7f,
     0x1.0a0234p-8f, 0x1.914cdcp-10f, 0x1.e173a6p-12f, 0x1.d39c96p-14f,
     0x1.73aa28p-16f, 0x1.e706dap-19f, 0x1.087498p-21f, 0x0.0p+0f}};

} // namespace coefficients
} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_MATH_MATHCOEFFICIENTS_H
