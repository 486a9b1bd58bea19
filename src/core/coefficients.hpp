// The coefficients of the polynomials that functions are computed by, and the constants that reduce their
// arguments, with names for emitted source. What each polynomial approximates, where and how well, stands
// where it is used.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "lathe/dtype.hpp"

namespace lathe {

namespace coefficients {

// ---- f32 ----

inline constexpr double kLn2[] = {0x1.62e4p-1, 0x1.7f7d1cp-20};    // two parts; 16 bits in the first
inline constexpr double kLog2E[] = {0x1.715476p+0, 0x1.4ae0cp-26}; // two parts
inline constexpr double kExpShift[] = {0x1.8p23 + 254};            // see math_exp.cpp
inline constexpr double kExp[] = {1, 1, 0x1p-1, 0x1.555464p-3, 0x1.5552fap-5, 0x1.125938p-7, 0x1.6ff2f6p-10};
inline constexpr double kExp2[] = {
    1, 0x1.62e432p-1, 0x1.ebfbep-3, 0x1.c6ae2cp-5, 0x1.3b29e4p-7, 0x1.5f88fep-10, 0x1.446c7ep-13};
inline constexpr double kLog[] = {0x1.555554p-2, -0x1.000226p-2, 0x1.99a008p-3, -0x1.547244p-3,
                                  0x1.22da24p-3, -0x1.0d8544p-3, 0x1.055b4p-3,  -0x1.38b514p-4};
inline constexpr double kSin[] = {-0x1.555544p-3, 0x1.1106d4p-7, -0x1.9920c8p-13};
inline constexpr double kCos[] = {-0.5, 0x1.55554ap-5, -0x1.6c0bc4p-10, 0x1.99cb8p-16};
inline constexpr double kHalfPi[] = {0x1.921fb4p+0, 0x1.4442d2p-24, -0x1.ee59dap-50}; // three parts
inline constexpr double kTwoOverPi[] = {0x1.45f306p-1};
inline constexpr double kLog10E[] = {0x1.bcb7b2p-2, -0x1.5b235ep-27}; // two parts
inline constexpr double kLog10Of2[] = {0x1.3442p-2, -0x1.95ec1p-19};  // two parts; 16 bits in the first
inline constexpr double kErfSmall[] = {0x1.06eba8p-3, -0x1.81273ep-2,  0x1.ce2dp-4,   -0x1.b7f97ep-6,
                                       0x1.540896p-8, -0x1.a4094ep-11, 0x1.4996d8p-14};
inline constexpr double kErfExponent[] = {-0x1.20ee5cp+0, -0x1.4538acp-1, -0x1.b2d3ep-4,  0x1.843668p-6,
                                          -0x1.d937ccp-9, 0x1.4a28ecp-12, -0x1.5e1a56p-17};
inline constexpr double kTanh[] = {-0x1.55553ep-2, 0x1.1109aep-3, -0x1.b898ep-5, 0x1.54b8aap-6,
                                   -0x1.825882p-8};
inline constexpr double kAtan32[] = {-0x1.55553ep-2, 0x1.9991e4p-3,  -0x1.242086p-3,
                                     0x1.c08cdp-4,   -0x1.580e98p-4, 0x1.da558p-5,
                                     -0x1.fe1b6p-6,  0x1.652d1ep-7,  -0x1.d5f79cp-10};
inline constexpr double kAsin32[] = {0x1.5555c8p-3, 0x1.330204p-4, 0x1.747bb8p-5, 0x1.8c3e54p-6,
                                     0x1.595c58p-5};
inline constexpr double kAtanh32[] = {0x1.55554p-2, 0x1.99a678p-3, 0x1.234d6p-3,
                                      0x1.e4046p-4, 0x1.a6973p-5,  0x1.6947fep-3};

// ---- f64 ----

inline constexpr double kLog2ERest64[] = {0x1.777d0ffda0d24p-56}; // log2 e beyond its nearest f64

inline constexpr double kErfc64[] = {
    0.136999457625061395,     0.194301036570129144,     0.0744545602489905181,    0.0199251715090179002,
    0.0025365679740445296,    -0.0004451252596952953,   -0.000215634573655657165, 1.13546459103115168e-05,
    1.85434875607284773e-05,  -8.06544528661325111e-07, -1.89893806750782733e-06, 1.98659257847997016e-07,
    2.12748141691104223e-07,  -5.0730490873611421e-08,  -2.19049088160550169e-08, 1.08338051120907823e-08,
    1.32718658724862968e-09,  -1.76979859245598283e-09, 1.14028433443335042e-10,  1.64296628963992473e-10,
    -3.04784046865458604e-11,
};
inline constexpr double kAtan64[] = {
    -0x1.5555555555526p-2, 0x1.99999999955b1p-3,  -0x1.249249237edf9p-3,  0x1.c71c717f9a8c1p-4,
    -0x1.745d11a94293fp-4, 0x1.3b13664dde9d1p-4,  -0x1.110e4e46f435dp-4,  0x1.e1bb7f806df3ep-5,
    -0x1.ae5db23e175c2p-5, 0x1.82d80d2a0d0e9p-5,  -0x1.599c18039d879p-5,  0x1.2c1d1f3acd73ap-5,
    -0x1.e9bfe868370d9p-6, 0x1.67f1341aa40b3p-6,  -0x1.c6f9cafbfd955p-7,  0x1.d6da23a75d18p-8,
    -0x1.794946ae5708ep-9, 0x1.b2985e4b3e64bp-11, -0x1.3df6732a6128cp-13, 0x1.b9d8e2587b4ccp-17};
inline constexpr double kAsin64[] = {0x1.555555555539p-3,  0x1.333333336e81fp-4,  0x1.6db6db42799dfp-5,
                                     0x1.f1c72c392dcb4p-6, 0x1.6e89f43c24538p-6,  0x1.1c6be1d71af28p-6,
                                     0x1.c6fdbeac383afp-7, 0x1.8ec30c0650d62p-7,  0x1.abcef7bab8dcp-8,
                                     0x1.3ff4dbe9d03f4p-6, -0x1.09d35d9acd9f6p-6, 0x1.056d772c6472p-5};
inline constexpr double kAtanh64[] = {0x1.55555555555ccp-2, 0x1.999999998785bp-3, 0x1.2492492c4357bp-3,
                                      0x1.c71c6e7cbc4a3p-4, 0x1.745d81495b4adp-4, 0x1.3b0b260939485p-4,
                                      0x1.11879096cc9c9p-4, 0x1.d905bb9134559p-5, 0x1.ea2c1d341bd7cp-5,
                                      0x1.dbcb9843cea8cp-7, 0x1.290aa9058da0ap-3, -0x1.39763a041fe99p-3,
                                      0x1.cc8e595e09677p-3};

} // namespace coefficients

/// How emitted source names the number: "lathe_exp_c3", the factor of the third power in the polynomial of
/// exp. Nothing if the number is none of these, or one that needs no name, such as 0.5.
std::optional<std::string> coefficient_name(DType dtype, double value);

/// A coefficient with a name. The value is rounded to its dtype.
struct NamedCoefficient {
  std::string name;
  DType dtype;
  double value;
};
/// All that have names, by function and power.
std::span<const NamedCoefficient> named_coefficients();

} // namespace lathe
