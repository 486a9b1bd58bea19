#include "graph/forms/winograd.hpp"

#include <algorithm>

#include "graph/forms/strided.hpp"
#include "lathe/error.hpp"

namespace lathe::graph {
namespace {

constexpr int kTaps = 3;

/// The role of each axis of the product. -1: no axis has the role, so its size is 1.
struct ConvolutionReading {
  Operand data, weights;
  int image = -1, height = -1, width = -1, output = -1, channel = -1;
  int tap_rows = -1, tap_columns = -1;
  Convolution sizes{1, 1, 1, 1, 1};
};

bool set_once(int& role, int axis) {
  if (role >= 0) return false;
  role = axis;
  return true;
}

std::optional<ConvolutionReading> convolution_reading_as(const NodeRef& sum, const NodeRef& data,
                                                         const NodeRef& weights) {
  const auto d = operand_of(data), w = operand_of(weights);
  if (!d || !w) return {};
  ConvolutionReading r{*d, *w};
  const Shape& shape = data->shape;
  const std::vector<int>& axes = std::get<ReduceAttr>(sum->attr).axes;
  const int rank = static_cast<int>(shape.size());
  const auto reduced = [&](int k) { return std::binary_search(axes.begin(), axes.end(), k); };
  const auto size = [&](int k) { return k < 0 ? 1 : shape[k].value(); };
  // A step along a tap axis moves through the data as far as a step along a row or column of the result.
  for (int k = 0; k < rank; ++k) {
    if (!reduced(k) || size(k) != kTaps || r.data.strides[k] <= 0 || r.weights.strides[k] == 0) continue;
    for (int p = 0; p < rank; ++p) {
      if (reduced(p) || size(p) == 1 || r.weights.strides[p] != 0 || r.data.strides[p] != r.data.strides[k])
        continue;
      if (p == r.height || p == r.width) return {};
      if (r.height < 0) {
        r.height = p, r.tap_rows = k;
      } else {
        if (!set_once(r.width, p)) return {};
        r.tap_columns = k;
      }
      break;
    }
  }
  if (r.width < 0) return {};
  for (int k = 0; k < rank; ++k) {
    if (size(k) == 1 || k == r.height || k == r.width || k == r.tap_rows || k == r.tap_columns) continue;
    const bool in_data = r.data.strides[k] != 0, in_weights = r.weights.strides[k] != 0;
    int* role = nullptr;
    if (reduced(k) && in_data && in_weights) role = &r.channel;
    if (!reduced(k) && in_data && !in_weights) role = &r.image;
    if (!reduced(k) && !in_data && in_weights) role = &r.output;
    if (!role || !set_once(*role, k)) return {};
  }
  r.sizes = {size(r.image), size(r.height), size(r.width), size(r.channel), size(r.output)};
  return r;
}

std::optional<ConvolutionReading> convolution_reading(const NodeRef& sum) {
  const NodeRef product = summed_floats(sum);
  if (!product) return {};
  if (auto r = convolution_reading_as(sum, product->sources[0], product->sources[1])) return r;
  return convolution_reading_as(sum, product->sources[1], product->sources[0]);
}

struct Matrices {
  SmallMatrix data, weights, result;
};

// Toom-Cook at the points 0, 1, -1 (and 2, -2) and infinity.
Matrices matrices_for(int tile) {
  if (tile == 2)
    return {{4, 4, {1, 0, -1, 0, 0, 1, 1, 0, 0, -1, 1, 0, 0, 1, 0, -1}},
            {4, 3, {1, 0, 0, 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 0, 0, 1}},
            {2, 4, {1, 1, 1, 0, 0, 1, -1, -1}}};
  if (tile != 4) throw InternalError("winograd: tiles of 2 or 4");
  return {{6, 6, {4, 0,  -5, 0, 1, 0, 0, -4, -4, 1,  1, 0, 0, 4, -4, -1, 1, 0,
                  0, -2, -1, 2, 1, 0, 0, 2,  -1, -2, 1, 0, 0, 4, 0,  -5, 0, 1}},
          {6,
           3,
           {1. / 4, 0, 0, -1. / 6, -1. / 6, -1. / 6, -1. / 6, 1. / 6, -1. / 6, //
            1. / 24, 1. / 12, 1. / 6, 1. / 24, -1. / 12, 1. / 6, 0, 0, 1}},
          {4, 6, {1, 1, 1, 1, 1, 0, 0, 1, -1, 2, -2, 0, 0, 1, 1, 4, 4, 0, 0, 1, -1, 8, -8, 1}}};
}

} // namespace

std::optional<Convolution> read_convolution(const NodeRef& sum) {
  const auto r = convolution_reading(sum);
  if (!r) return {};
  return r->sizes;
}

NodeRef winograd(const NodeRef& sum, int tile) {
  const auto reading = convolution_reading(sum);
  if (!reading) return {};
  const auto& [data, weights, image, height, width, output, channel, tap_rows, tap_columns, sizes] = *reading;
  const Matrices m = matrices_for(tile);
  const int64_t t = tile + kTaps - 1; // the side of a tile of data
  const int64_t rows = (sizes.height + tile - 1) / tile, columns = (sizes.width + tile - 1) / tile;
  const int64_t n = sizes.images, c = sizes.channels, o = sizes.outputs, tiles = n * rows * columns;

  // A padded image may be stored as a value of its own. `filled` stores it in another layout, so that copy is
  // left out.
  const NodeRef from = data.source->op == Op::Contiguous ? data.source->sources[0] : data.source;
  // Channels lie last, so that lanes run along them. Zeros fill the image up to whole tiles.
  const int64_t h = rows * tile + kTaps - 1, w = columns * tile + kTaps - 1;
  const int64_t given_h = sizes.height + kTaps - 1, given_w = sizes.width + kTaps - 1;
  const NodeRef image_rows =
      strided(from, {n, given_h, given_w, c},
              {data.along(image), data.along(height), data.along(width), data.along(channel)}, data.offset);
  const NodeRef filled = contiguous(view(
      image_rows, View::contiguous(image_rows->shape).pad({0, 0, 0, 0}, {0, h - given_h, w - given_w, 0})));
  const NodeRef windows =
      view(strided(filled, {t, t, n, rows, columns, c}, {w * c, c, h * w * c, tile * w * c, tile * c, 1}),
           View::contiguous({t, t, tiles, c}));
  const NodeRef v = transform(windows, {{0, 1}, {m.data, m.data}});

  const NodeRef taps = strided(
      weights.source, {kTaps, kTaps, c, o},
      {weights.along(tap_rows), weights.along(tap_columns), weights.along(channel), weights.along(output)},
      weights.offset);
  const NodeRef u = transform(taps, {{0, 1}, {m.weights, m.weights}});

  // t * t products of [tiles, c] and [c, o].
  const NodeRef products =
      binary(Op::Mul, strided(v, {t, t, tiles, o, c}, {t * tiles * c, tiles * c, c, 0, 1}),
             strided(u, {t, t, tiles, o, c}, {t * c * o, c * o, 0, 1, o}));
  const NodeRef sums = reduce(Op::Add, products, {4});
  const NodeRef tile_rows =
      strided(sums, {n * rows, t, columns, t, o}, {columns * o, t * tiles * o, o, tiles * o, 1});
  const NodeRef y = transform(tile_rows, {{1, 3}, {m.result, m.result}}); // [n, rows, tile, columns, tile, o]

  const int64_t row = columns * tile * o;
  std::vector<int64_t> shape, strides;
  for (int k = 0; k < static_cast<int>(sum->shape.size()); ++k) {
    shape.push_back(sum->shape[k].value());
    strides.push_back(k == image    ? rows * tile * row
                      : k == height ? row
                      : k == width  ? o
                      : k == output ? 1
                                    : 0);
  }
  return strided(y, shape, strides);
}

} // namespace lathe::graph
