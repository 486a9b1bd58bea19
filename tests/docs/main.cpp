// Runs one C++ block of a page: `docs_blocks PAGE NUMBER`. A build without ONNX lacks some; then it exits with 77.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include "docs/block.hpp"

namespace docs {
std::vector<Block>& registered_blocks() {
  static std::vector<Block> blocks;
  return blocks;
}
} // namespace docs

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  for (const docs::Block& block : docs::registered_blocks()) {
    if (block.page != argv[1] || std::to_string(block.number) != argv[2]) continue;
    try {
      return block.run();
    } catch (const std::exception& error) {
      std::cerr << error.what() << "\n";
      return 1;
    }
  }
#ifdef LATHE_DOCS_ONNX
  std::cerr << "there is no block " << argv[2] << " of " << argv[1] << "\n";
  return 1;
#else
  return 77;
#endif
}
