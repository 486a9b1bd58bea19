// The C++ blocks of the pages register themselves here; tools/site/blocks.py writes the code that does.
#pragma once
#include <string_view>
#include <vector>

namespace docs {

struct Block {
  std::string_view page;
  int number; // of the step, among all that run of its page
  int (*run)();
  Block(std::string_view of, int which, int (*what)());
};

std::vector<Block>& registered_blocks();

inline Block::Block(std::string_view of, int which, int (*what)()) : page(of), number(which), run(what) {
  registered_blocks().push_back(*this);
}

} // namespace docs
