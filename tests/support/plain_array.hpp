// Arrays of whole numbers computed by plain loops: what programs of views, elementwise functions and
// reductions give, exactly, from code that shares nothing with lathe but the names of its dtypes.
//
// A value is an int64, wrapped to the dtype where that is an integer (a u64 by its bits). Floats hold whole
// numbers that are exact in them: who makes programs keeps them below `largest()`.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "lathe/dtype.hpp"

namespace lathe::test {

/// The whole numbers up to which a dtype holds all of them; 0 for integers, which wrap.
inline int64_t largest_exact(DType d) {
  switch (d) {
  case DType::BF16: return 1 << 8;
  case DType::F16: return 1 << 11;
  case DType::F32: return 1 << 24;
  case DType::F64: return int64_t{1} << 53;
  default: return 0;
  }
}

inline int64_t wrapped(DType d, uint64_t v) {
  switch (d) {
  case DType::Bool: return v != 0;
  case DType::I8: return static_cast<int8_t>(v);
  case DType::I16: return static_cast<int16_t>(v);
  case DType::I32: return static_cast<int32_t>(v);
  case DType::U8: return static_cast<uint8_t>(v);
  case DType::U16: return static_cast<uint16_t>(v);
  case DType::U32: return static_cast<uint32_t>(v);
  default: return static_cast<int64_t>(v);
  }
}

inline bool less(DType d, int64_t a, int64_t b) {
  return d == DType::U64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

using Place = std::vector<int64_t>; // of an element: its index along each axis

struct PlainArray {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<int64_t> values; // row-major

  int64_t count() const {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
  int rank() const { return static_cast<int>(shape.size()); }
  int64_t at(const Place& place) const {
    int64_t flat = 0;
    for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + place[d];
    return values[static_cast<size_t>(flat)];
  }
  /// Whether all values are below the dtype's largest, and so are the sums of them all.
  bool is_exact() const {
    const int64_t most = largest_exact(dtype);
    return most == 0 ||
           std::all_of(values.begin(), values.end(), [&](int64_t v) { return std::abs(v) <= most; });
  }
};

/// An array of `value(place)`.
inline PlainArray made(DType dtype, std::vector<int64_t> shape,
                       const std::function<int64_t(const Place&)>& value) {
  PlainArray out{dtype, std::move(shape), {}};
  Place place(out.shape.size(), 0);
  for (int64_t n = out.count(); n > 0; --n) {
    const int64_t v = value(place);
    out.values.push_back(is_float(dtype) ? v : wrapped(dtype, static_cast<uint64_t>(v)));
    for (size_t d = place.size(); d-- > 0;) {
      if (++place[d] < out.shape[d]) break;
      place[d] = 0;
    }
  }
  return out;
}

// ---- views ----

inline PlainArray padded(const PlainArray& x, const std::vector<std::pair<int64_t, int64_t>>& by,
                         int64_t value) {
  std::vector<int64_t> shape = x.shape;
  for (size_t d = 0; d < shape.size(); ++d) shape[d] += by[d].first + by[d].second;
  return made(x.dtype, shape, [&](Place p) {
    for (size_t d = 0; d < p.size(); ++d) {
      p[d] -= by[d].first;
      if (p[d] < 0 || p[d] >= x.shape[d]) return value;
    }
    return x.at(p);
  });
}

inline PlainArray reshaped(const PlainArray& x, std::vector<int64_t> shape) {
  return {x.dtype, std::move(shape), x.values};
}

inline PlainArray permuted(const PlainArray& x, const std::vector<int>& axes) {
  std::vector<int64_t> shape;
  for (int a : axes) shape.push_back(x.shape[static_cast<size_t>(a)]);
  return made(x.dtype, shape, [&](const Place& p) {
    Place from(p.size());
    for (size_t d = 0; d < p.size(); ++d) from[static_cast<size_t>(axes[d])] = p[d];
    return x.at(from);
  });
}

inline PlainArray flipped(const PlainArray& x, int axis) {
  return made(x.dtype, x.shape, [&](Place p) {
    p[static_cast<size_t>(axis)] = x.shape[static_cast<size_t>(axis)] - 1 - p[static_cast<size_t>(axis)];
    return x.at(p);
  });
}

/// Elements begin, begin + step, ... before end, along an axis.
inline PlainArray strided(const PlainArray& x, int axis, int64_t begin, int64_t end, int64_t step) {
  std::vector<int64_t> shape = x.shape;
  shape[static_cast<size_t>(axis)] = (end - begin + step - 1) / step;
  return made(x.dtype, shape, [&](Place p) {
    p[static_cast<size_t>(axis)] = begin + p[static_cast<size_t>(axis)] * step;
    return x.at(p);
  });
}

inline PlainArray windows(const PlainArray& x, int axis, int64_t size, int64_t step, int64_t dilation) {
  std::vector<int64_t> shape = x.shape;
  shape[static_cast<size_t>(axis)] =
      (x.shape[static_cast<size_t>(axis)] - (size - 1) * dilation - 1) / step + 1;
  shape.push_back(size);
  return made(x.dtype, shape, [&](Place p) {
    const int64_t in_window = p.back();
    p.pop_back();
    p[static_cast<size_t>(axis)] = p[static_cast<size_t>(axis)] * step + in_window * dilation;
    return x.at(p);
  });
}

/// `count` times the same, along a new axis before `axis`.
inline PlainArray expanded(const PlainArray& x, int axis, int64_t count) {
  std::vector<int64_t> shape = x.shape;
  shape.insert(shape.begin() + axis, count);
  return made(x.dtype, shape, [&](Place p) {
    p.erase(p.begin() + axis);
    return x.at(p);
  });
}

inline PlainArray rolled(const PlainArray& x, int axis, int64_t by) {
  return made(x.dtype, x.shape, [&](Place p) {
    const int64_t n = x.shape[static_cast<size_t>(axis)];
    p[static_cast<size_t>(axis)] = ((p[static_cast<size_t>(axis)] - by) % n + n) % n;
    return x.at(p);
  });
}

// ---- elementwise ----

inline PlainArray each(const PlainArray& x, const std::function<int64_t(int64_t)>& f) {
  PlainArray out{x.dtype, x.shape, {}};
  for (int64_t v : x.values) {
    const int64_t y = f(v);
    out.values.push_back(is_float(x.dtype) ? y : wrapped(x.dtype, static_cast<uint64_t>(y)));
  }
  return out;
}

/// Both of one shape, or y of size 1 where x is not.
inline PlainArray both(const PlainArray& x, const PlainArray& y,
                       const std::function<int64_t(int64_t, int64_t)>& f) {
  return made(x.dtype, x.shape, [&](const Place& p) {
    Place q = p;
    for (size_t d = 0; d < q.size(); ++d)
      if (y.shape[d] == 1) q[d] = 0;
    return f(x.at(p), y.at(q));
  });
}

// ---- along axes ----

/// f folded over the elements along the axes, in order, beginning with the first; the axes stay, of size 1.
inline PlainArray folded(const PlainArray& x, const std::vector<int>& axes,
                         const std::function<int64_t(int64_t, int64_t)>& f) {
  std::vector<int64_t> inner(x.shape.size(), 1), outer = x.shape;
  for (int a : axes) {
    inner[static_cast<size_t>(a)] = x.shape[static_cast<size_t>(a)];
    outer[static_cast<size_t>(a)] = 1;
  }
  return made(x.dtype, outer, [&](const Place& p) {
    bool first = true;
    int64_t out = 0;
    Place q(p.size(), 0);
    const auto walk = [&](const auto& self, size_t d) -> void {
      if (d < q.size()) {
        for (int64_t i = 0; i < inner[d]; ++i) {
          q[d] = p[d] + i;
          self(self, d + 1);
        }
        return;
      }
      out = first ? x.at(q) : f(out, x.at(q));
      first = false;
    };
    walk(walk, 0);
    return out;
  });
}

/// The same along one axis, with each element what is folded up to it.
inline PlainArray scanned(const PlainArray& x, int axis, const std::function<int64_t(int64_t, int64_t)>& f) {
  return made(x.dtype, x.shape, [&](Place p) {
    const int64_t last = p[static_cast<size_t>(axis)];
    int64_t out = 0;
    for (int64_t i = 0; i <= last; ++i) {
      p[static_cast<size_t>(axis)] = i;
      out = i ? f(out, x.at(p)) : x.at(p);
    }
    return out;
  });
}

inline int64_t added(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t multiplied(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

} // namespace lathe::test
