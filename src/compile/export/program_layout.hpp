// Where the values of a whole program live when it is written down as source: the parameters' names, the
// constants that are read, and the places of intermediates. The same for every language.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compile/front/inputs.hpp"
#include "compile/run/placed_program.hpp"
#include "core/storage.hpp"
#include "lathe/executable.hpp"
#include "render/c_names.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

struct ProgramLayout {
  enum class Home { Input, Output, Constant, Arena };
  struct Place {
    Home home;
    size_t index;   // of inputs, outputs or constants
    int64_t offset; // Arena: bytes into the region of the buffer's dtype
  };
  struct Port {
    std::string name; // an identifier
    KernelParam declared;
  };
  struct Constant {
    std::string name;
    ast::BufferRef buffer;
    StorageRef data;
  };
  /// An output that has the value of another one.
  struct Copy {
    size_t to, from; // outputs
    ast::BufferRef buffer;
  };

  std::vector<ast::Kernel> kernels; // finalised, with names that are functions of one file
  std::vector<Port> inputs;         // as declared, used or not
  std::vector<Port> outputs;        // by name
  std::vector<Constant> constants;  // those that kernels read, in the order in which they do
  std::vector<Copy> copies;         // after the last kernel
  std::vector<Expr> vars;
  std::map<std::string, std::string> var_names;
  std::map<int, Place> places; // of every buffer that a kernel has, by id
  /// Bytes of intermediates, at the upper bounds of their sizes. Memory is shared by those of the same dtype
  /// only: C's aliasing rules see to the rest.
  std::map<DType, int64_t> arenas;

  const Place& place(const ast::Param& param) const { return places.at(param.buffer->id); }
};

/// `names` holds what is taken already, and afterwards all that is named here. Kernels' names begin with
/// `prefix`.
ProgramLayout lay_out(const search::Plan& plan, const std::vector<KernelParam>& declared,
                      render::Names& names, const std::string& prefix = "");

/// A size as an expression of C, of plain operators alone.
std::string size_text(Expr size, const std::map<std::string, std::string>& var_names);
std::string count_text(const Shape& shape, const std::map<std::string, std::string>& var_names);

} // namespace lathe::pipeline
