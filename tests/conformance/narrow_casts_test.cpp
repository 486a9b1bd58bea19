// Casts from and to the narrow dtypes in compiled programs, on every device: all codes, and numbers of every
// dtype around every place where rounding changes, against a search among the values that the format's
// definition lists.
#include <doctest/doctest.h>

#include <functional>

#include "support/device_run.hpp"
#include "support/narrow_formats.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Rounding = NarrowCast::Rounding;

struct Way {
  const char* name;
  NarrowCast how;
};
constexpr Way kWays[] = {{"sat", {true, Rounding::Nearest}},   {"wide", {false, Rounding::Nearest}},
                         {"sat_up", {true, Rounding::Up}},     {"wide_up", {false, Rounding::Up}},
                         {"sat_down", {true, Rounding::Down}}, {"wide_down", {false, Rounding::Down}}};

bool applies(DType to, const Way& way) {
  return to == DType::F8E8M0 || (is_float(to) ? way.how.rounding == Rounding::Nearest : &way == &kWays[0]);
}

/// Code k of packed memory: low bits first.
uint8_t code_at(const Elements& packed, DType dtype, size_t k) {
  const size_t per_byte = 8 / static_cast<size_t>(bits_of(dtype));
  const int byte = packed.bytes[k / per_byte] >> (k % per_byte * static_cast<size_t>(bits_of(dtype)));
  return static_cast<uint8_t>(byte & ((1 << bits_of(dtype)) - 1));
}

std::string name_of(DType from, DType to, const char* way = "") {
  return std::string(to_string(from)) + "_" + to_string(to) + "_" + way;
}

/// What a cast to the narrow dtype gives, as a double holds the number.
uint8_t expected_code(const std::function<uint8_t(double, NarrowCast)>& nearest, DType from, DType to,
                      double v, NarrowCast how) {
  if (is_float(to)) return nearest(v, how);
  if (is_integer(from)) return static_cast<uint8_t>(static_cast<int64_t>(v) & ((1 << bits_of(to)) - 1));
  const double kept = std::isnan(v) ? 0 : std::min(std::max(std::trunc(v), -0x1p31), 0x1p31 - 1);
  return static_cast<uint8_t>(static_cast<int64_t>(kept) & ((1 << bits_of(to)) - 1));
}

constexpr DType kFloats[] = {DType::F64, DType::F32, DType::F16, DType::BF16};
constexpr DType kIntegers[] = {DType::Bool, DType::I8,  DType::U8,  DType::I16, DType::U16,
                               DType::I32,  DType::U32, DType::I64, DType::U64};

/// Numbers of a dtype around all of the places; of an odd count, so that a last byte is not full.
Elements numbers_of(DType from, const std::vector<double>& numbers) {
  Elements out(from, numbers.size());
  for (size_t k = 0; k < numbers.size(); ++k)
    out.put(k, is_float(from)
                   ? Scalar::of_float(from, numbers[k])
                   : Scalar::of_int(
                         from, static_cast<int64_t>(is_unsigned(from) ? std::fabs(numbers[k]) : numbers[k])));
  return out;
}

std::vector<double> all_numbers() {
  std::vector<double> all;
  for (const DType to : kNarrowFloats)
    for (const double v : probing_numbers(to)) all.push_back(v);
  for (int k = -40; k <= 40; ++k) all.push_back(k * 0.75);
  if (all.size() % 2 == 0) all.push_back(1);
  return all;
}

/// Integers: those near 0, powers of two, and what lies just beside halfway between two.
std::vector<double> all_integers() {
  std::vector<double> all;
  for (int k = -600; k <= 600; ++k) all.push_back(k);
  for (int e = 8; e < 53; ++e)
    for (const double v :
         {std::exp2(e), 1.5 * std::exp2(e), 1.25 * std::exp2(e), 1.125 * std::exp2(e), 1.0625 * std::exp2(e)})
      for (const double x : {v - 1, v, v + 1}) {
        all.push_back(x);
        all.push_back(-x);
      }
  if (all.size() % 2 == 0) all.push_back(7);
  return all;
}

void check_casts_to(const std::string& device, const std::vector<double>& numbers,
                    std::span<const DType> sources) {
  NamedTensors program;
  Memory in;
  for (const DType from : sources) {
    const std::string name = std::string("in_") + to_string(from);
    in[name] = numbers_of(from, numbers);
    const Tensor x = Tensor::input(name, {Expr(static_cast<int64_t>(numbers.size()))}, from);
    for (int d = kDTypeCount; d < kAllDTypeCount; ++d)
      for (const Way& way : kWays)
        if (const auto to = static_cast<DType>(d); applies(to, way))
          program.emplace(name_of(from, to, way.name), x.cast(to, way.how));
  }
  const Memory out = run_on(device, program, in);
  for (int d = kDTypeCount; d < kAllDTypeCount; ++d) {
    const auto to = static_cast<DType>(d);
    const NearestCode nearest(is_float(to) ? to : DType::F4E2M1);
    for (const DType from : sources)
      for (const Way& way : kWays) {
        if (!applies(to, way)) continue;
        const Elements &given = in.at(std::string("in_") + to_string(from)),
                       &got = out.at(name_of(from, to, way.name));
        size_t wrong = 0, first = 0;
        for (size_t k = given.size(); k-- > 0;) {
          const auto v = static_cast<double>(given.exact(k));
          const bool both_nan = std::isnan(v) && is_float(to) && to != DType::F4E2M1; // of any sign
          const int sign =
              both_nan && to != DType::F8E8M0 && to != DType::F8E4M3FNUZ && to != DType::F8E5M2FNUZ ? 0x7F
                                                                                                    : 0xFF;
          if ((code_at(got, to, k) & sign) != (expected_code(nearest, from, to, v, way.how) & sign))
            ++wrong, first = k;
        }
        CHECK_MESSAGE(wrong == 0, device, ": ", name_of(from, to, way.name), ", ", wrong, " of ",
                      given.size(), ", such as ", static_cast<double>(given.exact(first)), " gives code ",
                      static_cast<int>(code_at(got, to, first)), ", expected ",
                      static_cast<int>(expected_code(nearest, from, to,
                                                     static_cast<double>(given.exact(first)), way.how)));
      }
  }
}

} // namespace

TEST_CASE("floats to narrow dtypes") {
  for (const std::string& device : tested_devices()) check_casts_to(device, all_numbers(), kFloats);
}

TEST_CASE("integers to narrow dtypes") {
  for (const std::string& device : tested_devices()) check_casts_to(device, all_integers(), kIntegers);
}

TEST_CASE("integers of 64 bits that f64 does not hold are rounded once") {
  const std::vector<int64_t> values{(int64_t{3} << 60) - 1,
                                    int64_t{3} << 60,
                                    (int64_t{3} << 53) - 1,
                                    INT64_MAX,
                                    INT64_MIN,
                                    (int64_t{3} << 53) + 1,
                                    5};
  const std::vector<int> expected{127 + 61, 127 + 62, 127 + 54, 127 + 63, 255, 127 + 55, 127 + 2};
  for (const std::string& device : tested_devices()) {
    Memory in{{"x", Elements(DType::I64, values.size())}};
    std::memcpy(in["x"].bytes.data(), values.data(), values.size() * 8);
    const Tensor x = Tensor::input("x", {Expr(static_cast<int64_t>(values.size()))}, DType::I64);
    const Memory out = run_on(device, {{"y", x.cast(DType::F8E8M0)}}, in);
    for (size_t k = 0; k < values.size(); ++k) CHECK(static_cast<int>(out.at("y").bytes[k]) == expected[k]);
  }
}

TEST_CASE("every code to every dtype") {
  constexpr DType kTargets[] = {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8,
                                DType::U8,  DType::I32, DType::I64, DType::Bool};
  for (const std::string& device : tested_devices()) {
    NamedTensors program;
    Memory in;
    for (int d = kDTypeCount; d < kAllDTypeCount; ++d) {
      const auto from = static_cast<DType>(d);
      const size_t codes = size_t{1} << bits_of(from), per_byte = 8 / static_cast<size_t>(bits_of(from));
      const std::string name = std::string("in_") + to_string(from);
      in[name] = Elements(DType::U8, codes / per_byte);
      for (size_t k = 0; k < codes; ++k)
        in[name].bytes[k / per_byte] |=
            static_cast<unsigned char>(k << (k % per_byte * static_cast<size_t>(bits_of(from))));
      const Tensor x = Tensor::input(name, {Expr(static_cast<int64_t>(codes))}, from);
      for (const DType to : kTargets) program.emplace(name_of(from, to), x.cast(to));
      for (int e = kDTypeCount; e < kAllDTypeCount; ++e)
        if (e != d) program.emplace(name_of(from, static_cast<DType>(e)), x.cast(static_cast<DType>(e)));
    }
    const Memory out = run_on(device, program, in);
    for (int d = kDTypeCount; d < kAllDTypeCount; ++d) {
      const auto from = static_cast<DType>(d);
      const std::vector<double> values = values_by_definition(from);
      for (const DType to : kTargets) {
        const Elements& got = out.at(name_of(from, to));
        size_t wrong = 0, first = 0;
        for (size_t k = values.size(); k-- > 0;) {
          const double v = values[k];
          const bool right = is_float(to)        ? identical(got.exact(k), rounded_to(to, v))
                             : to == DType::Bool ? got.exact(k) == (v != 0)
                             : is_float(from)    ? got.get(k) == Scalar::of_float(to, v)
                                                 : got.get(k) == Scalar::of_int(to, static_cast<int64_t>(v));
          if (!right) ++wrong, first = k;
        }
        CHECK_MESSAGE(wrong == 0, device, ": ", name_of(from, to), ", ", wrong, " codes, such as ", first,
                      ": ", static_cast<double>(got.exact(first)), ", expected ", values[first]);
      }
      for (int e = kDTypeCount; e < kAllDTypeCount; ++e) {
        const auto to = static_cast<DType>(e);
        if (to == from) continue;
        const NearestCode nearest(is_float(to) ? to : DType::F4E2M1);
        size_t wrong = 0, first = 0;
        for (size_t k = values.size(); k-- > 0;) {
          const bool any_sign = std::isnan(values[k]) && (to == DType::F8E4M3FN || to == DType::F8E5M2);
          const int mask = any_sign ? 0x7F : 0xFF;
          if ((code_at(out.at(name_of(from, to)), to, k) & mask) !=
              (expected_code(nearest, from, to, values[k], {}) & mask))
            ++wrong, first = k;
        }
        CHECK_MESSAGE(wrong == 0, device, ": ", name_of(from, to), ", ", wrong, " codes, such as ", first);
      }
    }
  }
}
