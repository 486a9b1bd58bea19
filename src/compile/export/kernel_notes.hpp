// What emitted source says of its kernels, for those who read it.
//
//   // from       ffn (MatMul), act (Gelu)
//   // reads      a f32[512, 512], b f32[512, 512]
//   // computes   t0 f32[512, 512]: t0[i0, i1] = sum over r2 < 512 of a[i0, r2] * b[r2, i1]
//   //            t9 f32[512, 512]: t9[i0, i1] = gelu(t0[i0, i1]), the output "out"
//   // schedule   split(t0.i0, 8); ...
//   // predicted  1.21 ms, most of it arithmetic
#pragma once
#include <map>
#include <string>

#include "compile/front/value_names.hpp"
#include "lathe/executable.hpp"
#include "render/render.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

/// The text without what could end or lengthen a comment: a backslash, its trigraph, control characters.
std::string in_comment(std::string text);

/// Puts a kernel's comment before its first function.
void add_comment(render::GridSource& source, const std::string& comment);

class KernelNotes {
public:
  /// The arguments outlive this.
  KernelNotes(const search::Plan& plan, const CompileOptions& options, const ValueNames& names);
  /// The notes of the plan of a recurrence's body.
  KernelNotes of_body(const search::Plan& body) const { return KernelNotes(body, options_, names_); }

  /// Lines of C comments; nothing for a kernel that runs a recurrence.
  std::string comment(const search::KernelPlan& kernel) const;
  /// The kernel's loops. One along an axis whose size the user named has that name.
  ast::Kernel with_axis_names(const search::KernelPlan& kernel) const;

private:
  std::string text_of(const ast::Buffer& buffer) const;
  std::string outputs_of(int stage) const;
  std::string origins_of(const search::KernelPlan& kernel) const;
  std::string reads_of(const search::KernelPlan& kernel) const;
  std::string predicted(const search::KernelPlan& kernel) const;

  const search::Plan& plan_;
  const CompileOptions& options_;
  const ValueNames& names_;
  const lower::Formulas formulas_;
  const search::Target target_;
  const search::MachineProfile machine_;
  std::map<std::string, std::string, std::less<>> axis_names_; // the names of loops as they were lowered
};

} // namespace lathe::pipeline
