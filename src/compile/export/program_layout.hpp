// The places of a whole program's values in source: the parameters' names, the constants that kernels read,
// and the places of intermediates. The same for every language.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compile/export/kernel_notes.hpp"
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
    size_t index;   // among inputs, outputs or constants
    int64_t offset; // Arena: bytes into the region of the buffer's dtype
  };
  struct Port {
    std::string name; // an identifier
    KernelParam declared;
    KernelParam held; // as it stands in memory
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

  /// A recurrence and the layout of its body, whose inputs and outputs are those of lower::Recurrence::body.
  /// The constants of the body are those of the layout around it.
  struct Recurrence;

  std::vector<ast::Kernel> kernels;  // finalised, with names that are unique in one file
  std::vector<std::string> comments; // by kernel, for readers
  /// By kernel: the recurrence that it runs, or null.
  std::vector<std::shared_ptr<const Recurrence>> recurrences;
  std::vector<Port> inputs; // as declared, used or not
  std::vector<Port> outputs;
  std::vector<Constant> constants; // those that kernels read, in the order of their first reads
  std::vector<Copy> copies;        // after the last kernel
  std::vector<Expr> vars;
  std::map<std::string, std::string> var_names;
  std::map<int, Place> places; // of every buffer of a kernel, by id
  /// Bytes of intermediates, at the upper bounds of their sizes. Only intermediates of one dtype share
  /// memory, because of C's aliasing rules.
  std::map<DType, int64_t> arenas;

  const Place& place(const ast::Param& param) const { return places.at(param.buffer->id); }
};

struct ProgramLayout::Recurrence {
  const lower::Recurrence* program; // of the plan that is laid out, which outlives the layout
  ProgramLayout body;
};

/// With a to z as A to Z: how a macro says a name.
std::string in_capitals(std::string name);

/// Returns the layout of a plan. `notes`: of the plan. `names` holds the names that are taken, and afterwards
/// also those given here. Kernels' names begin with `prefix`. Inputs and outputs are in the given order, and
/// those that it does not name behind them, by name.
ProgramLayout lay_out(const search::Plan& plan, const KernelNotes& notes,
                      const std::vector<KernelParam>& declared, render::Names& names,
                      const std::string& prefix = "", const std::vector<std::string>& order = {});

/// Returns a size as a C expression that consists of plain operators.
std::string size_text(Expr size, const std::map<std::string, std::string>& var_names);
std::string count_text(const Shape& shape, const std::map<std::string, std::string>& var_names);

} // namespace lathe::pipeline
