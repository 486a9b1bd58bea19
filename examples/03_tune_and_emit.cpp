// Search for a schedule, look at its moves, use them again without searching, and print the program as one C
// file.
#include <iostream>
#include <lathe/lathe.hpp>
using lathe::Tensor;

int main() {
  Tensor a = Tensor::input("a", {96, 64}), b = Tensor::input("b", {64, 48}),
         bias = Tensor::input("bias", {48});
  lathe::NamedTensors program{{"y", (a.matmul(b) + bias).gelu()}};

  lathe::TuneOptions how;
  how.budget_seconds = 2;
  how.progress = [](const lathe::TuneProgress& p) {
    std::cerr << "round " << p.round << ": " << p.measured << " measured, best " << p.best_seconds * 1e6
              << " us\n";
  };
  lathe::CompileOptions options;
  options.use_database = false; // else the result is kept, and the next compile() of this program finds it
  lathe::Executable tuned = lathe::tune(program, how, options);
  std::cout << "kernels: " << tuned.kernel_count() << ", by these moves:\n";
  for (const std::string& move : tuned.moves()) std::cout << "  " << move << "\n";

  // Moves are data: the same list on the same program is the same schedule, with no search.
  options.moves = tuned.moves();
  lathe::Executable again = lathe::compile(program, options);
  std::cout << "replayed: " << (again.moves() == tuned.moves() ? "the same" : "different") << "\n";

  std::cout << lathe::emit(program, {.target = "c", .compile = options});
}
