// A small convolutional network, its kernels and its memory. The same program on every device gives the same
// classes.
#include <iostream>
#include <lathe/lathe.hpp>
using lathe::Tensor;

int main() {
  // A program over named inputs: two images of 16x16, 8 filters, 10 classes.
  Tensor image = Tensor::input("image", {2, 1, 16, 16});
  Tensor filters = Tensor::input("filters", {8, 1, 3, 3}),
         weights = Tensor::input("weights", {8 * 8 * 8, 10});
  Tensor hidden = image.conv2d(filters, {}, {.padding = {1}}).relu().max_pool2d({2});
  Tensor scores = hidden.flatten(1).matmul(weights);
  lathe::NamedTensors program{{"probs", scores.softmax(-1)}, {"class", scores.argmax(-1)}};

  lathe::NamedTensors inputs{{"image", Tensor::rand({2, 1, 16, 16}, /*seed=*/1)},
                             {"filters", Tensor::randn({8, 1, 3, 3}, 2)},
                             {"weights", Tensor::randn({8 * 8 * 8, 10}, 3)}};
  for (const lathe::DeviceInfo& device : lathe::devices()) {
    if (!device.available) continue;
    lathe::CompileOptions options;
    options.device = device.name;
    lathe::Executable f = lathe::compile(program, options);
    lathe::NamedTensors out = f(inputs);
    std::cout << device.name << ": classes " << out.at("class").cast(lathe::DType::I32)
              << ", sum of probabilities " << out.at("probs").sum().item<float>() << "; " << f.kernel_count()
              << " kernels, " << f.arena_bytes() << " bytes between them (" << f.naive_bytes()
              << " without reuse)\n";
  }

  // A mistake is a typed error that names the function and the shapes.
  try {
    (void)image.matmul(weights);
  } catch (const lathe::Error& e) {
    std::cout << "error: " << e.what() << "\n";
  }
}
