#include <iostream>
#include <lathe/lathe.hpp>
using lathe::Tensor;

int main() {
  Tensor a = Tensor::from({-1.f, 4.f, -2.f, 5.f, 1.f, 5.f, 7.f, 9.f});
  Tensor y = ((a + a) * a).relu() + a;          // lazy: nothing has run
  std::cout << y << "\n";                       // realised: 1 36 6 55 3 55 105 171

  lathe::Var n("n", 1, 4096);                   // a program with named inputs, for any n
  Tensor x = Tensor::input("x", {n, 64}), w = Tensor::input("w", {64, 10});
  lathe::Executable f = lathe::compile({{"probs", x.matmul(w).softmax(-1)}});
  for (int rows : {1, 7, 1000}) {
    auto out = f({{"x", Tensor::randn({rows, 64}, /*seed=*/1)}, {"w", Tensor::randn({64, 10}, 2)}});
    std::cout << out.at("probs").sum().item<float>() << "\n";   // 1, 7, 1000
  }
  for (const lathe::Kernel& k : f.kernels()) std::cout << k.name() << "\n" << k.source() << "\n";
  std::cout << lathe::emit(y, {.target = "opencl"});
}
