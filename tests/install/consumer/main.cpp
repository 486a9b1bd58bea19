#include <iostream>
#include <lathe/lathe.hpp>
#ifdef HAS_ONNX
#include <lathe/onnx.hpp>
#endif

int main() {
  lathe::Tensor a = lathe::Tensor::from({3.f, 4.f});
  std::cout << lathe::default_device() << " " << a.square().sum().sqrt().item<float>() << "\n"; // 5
  for (const lathe::DeviceInfo& d : lathe::devices())
    std::cout << d.name << (d.available ? ": available, " : ": absent, ") << d.detail << "\n";
#ifdef HAS_ONNX
  try {
    lathe::onnx::load("no model", 8);
  } catch (const lathe::Error& error) {
    std::cout << error.what() << "\n";
  }
#endif
}
