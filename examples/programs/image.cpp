// A photograph of u8 with interleaved channels: half its size, then its brightness, then a blur of 3 x 3.
#include <cstdlib>
#include <lathe/lathe.hpp>

#include "beside.hpp"
#include "plain/image.hpp"
using lathe::DType, lathe::Tensor;

int main(int argc, char** argv) {
  const int h = argc > 1 ? std::atoi(argv[1]) : 540, w = h * 16 / 9; // of the result
  const Tensor photo = Tensor::input("photo", {2 * h, 2 * w, 3}, DType::U8);
  const Tensor quads = photo.cast(DType::U16).reshape({h, 2, w, 2, 3});
  const auto corner = [&](int y, int x) {
    return quads.shrink({{0, h}, {y, y + 1}, {0, w}, {x, x + 1}, {0, 3}}).reshape({h, w, 3});
  };
  const Tensor half = (corner(0, 0) + corner(0, 1) + corner(1, 0) + corner(1, 1) + 2) >> 2;
  const auto channel = [&](int c) { return half.shrink({{0, h}, {0, w}, {c, c + 1}}).squeeze(2); };
  const Tensor luma = (channel(0) * 77 + channel(1) * 150 + channel(2) * 29) >> 8;
  const Tensor edged = lathe::pad(luma, {{1, 1}, {1, 1}}, lathe::PadMode::Edge);
  const auto moved = [&](int y, int x) { return edged.shrink({{y, h + y}, {x, w + x}}); };
  const auto row = [&](int y) { return moved(y, 0) + moved(y, 1) * 2 + moved(y, 2); };
  const Tensor blurred = ((row(0) + row(1) * 2 + row(2) + 8) >> 4).cast(DType::U8);
  const lathe::Executable program = lathe::compile({{"out", blurred}}, {.threads = 1});

  const Tensor given = Tensor::randint(0, 256, {2 * h, 2 * w, 3}, /*seed=*/1, DType::U8).realise();
  std::vector<uint8_t> ours(static_cast<size_t>(h) * w), plain(ours.size());
  const uint8_t* pixels = given.data<uint8_t>().data();
  beside(
      "image", 21, [&] { program.run({{"photo", pixels}}, {{"out", ours.data()}}); },
      [&] { plain_image(pixels, h, w, plain.data()); });
  std::printf("             %s\n", ours == plain ? "the same" : "different");
  return ours == plain ? 0 : 1;
}
