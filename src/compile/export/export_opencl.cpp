// A program as OpenCL: the kernels in one file, and host code that keeps the kernels, the weights and the
// arena on the device.
#include <algorithm>

#include <fmt/format.h>

#include "compile/export/export_targets.hpp"
#include "compile/front/shape_values.hpp"
#include "render/render.hpp"

namespace lathe::pipeline {
namespace {

constexpr const char* kHostHeader =
    R"(/* @name@: a program made by lathe, for OpenCL 1.2. Inputs and outputs are row-major in host memory. */
#ifndef LATHE_@NAME@_H
#define LATHE_@NAME@_H
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
@include@
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

@ports@@declarations@
/* What a program has on a device. For one call at a time; its buffers are of the upper bounds of the sizes. */
struct @name@ {
  cl_program program;
  cl_kernel kernels[@kernels@];
  cl_mem buffers[@buffers@]; /* weights, arena, inputs, outputs, what the kernels need for themselves */
  cl_int status;             /* OpenCL's error where one of these gives @NAME@_DEVICE_FAILED */
};

/* `source`: the bytes of @name@.cl. Close it whatever this returns. */
int @name@_open(struct @name@* self, cl_context context, cl_device_id device, const void* weights, const char* source,
    size_t source_bytes);
int @name@_run(struct @name@* self, cl_command_queue queue@params@);
void @name@_close(struct @name@* self);

#ifdef __cplusplus
}
#endif
#endif
)";

constexpr const char* kHostSource = R"(/* @name@, made by lathe: the host's side. */
#include "@name@.h"

#include <string.h>
@functions@
static int @name@_fail(struct @name@* self, cl_int status) {
  self->status = status;
  return @NAME@_DEVICE_FAILED;
}

int @name@_open(struct @name@* self, cl_context context, cl_device_id device, const void* weights, const char* source,
    size_t source_bytes) {
  static const char* const names[@kernels@] = {@names@};
  static const size_t bytes[@buffers@] = {@sizes@};
  cl_int status;
  int k, error;
  memset(self, 0, sizeof *self);
  error = @name@_check_header(weights);
  if (error != @NAME@_OK) return error;
  for (k = 0; k < @buffers@; ++k) {
    self->buffers[k] = clCreateBuffer(context, CL_MEM_READ_WRITE | (k == 0 ? CL_MEM_COPY_HOST_PTR : 0), bytes[k],
        k == 0 ? (void*)weights : NULL, &status);
    if (status != CL_SUCCESS) return @name@_fail(self, status);
  }
  self->program = clCreateProgramWithSource(context, 1, &source, &source_bytes, &status);
  if (status != CL_SUCCESS) return @name@_fail(self, status);
  status = clBuildProgram(self->program, 1, &device, "", NULL, NULL);
  if (status != CL_SUCCESS) return @name@_fail(self, status);
  for (k = 0; k < @kernels@; ++k) {
    self->kernels[k] = clCreateKernel(self->program, names[k], &status);
    if (status != CL_SUCCESS) return @name@_fail(self, status);
  }
  return @NAME@_OK;
}

void @name@_close(struct @name@* self) {
  int k;
  for (k = 0; k < @kernels@; ++k)
    if (self->kernels[k]) clReleaseKernel(self->kernels[k]);
  for (k = 0; k < @buffers@; ++k)
    if (self->buffers[k]) clReleaseMemObject(self->buffers[k]);
  if (self->program) clReleaseProgram(self->program);
  memset(self, 0, sizeof *self);
}

/* The arguments of a kernel: buffers by their numbers, then numbers. */
static cl_int @name@_launch(struct @name@* self, cl_command_queue queue, int kernel, const int* buffers, int buffer_count,
    const cl_long* numbers, int number_count, const size_t* global, const size_t* local) {
  cl_int status = CL_SUCCESS;
  cl_uint at = 0;
  int k;
  for (k = 0; k < buffer_count && status == CL_SUCCESS; ++k)
    status = clSetKernelArg(self->kernels[kernel], at++, sizeof(cl_mem), &self->buffers[buffers[k]]);
  for (k = 0; k < number_count && status == CL_SUCCESS; ++k)
    status = clSetKernelArg(self->kernels[kernel], at++, sizeof(cl_long), &numbers[k]);
  if (status != CL_SUCCESS) return status;
  return clEnqueueNDRangeKernel(queue, self->kernels[kernel], 3, NULL, global, local, 0, NULL, NULL);
}

int @name@_run(struct @name@* self, cl_command_queue queue@params@) {
  cl_int status;
@body@  return @NAME@_OK;
}
)";

constexpr const char* kMainHelpers = R"(
/* The first GPU, or what else there is. */
static cl_device_id choose_device(void) {
  static const cl_device_type types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ALL};
  cl_platform_id platforms[16];
  cl_uint count = 0, p;
  int t;
  if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) count = 0;
  if (count > 16) count = 16;
  for (t = 0; t < 2; ++t)
    for (p = 0; p < count; ++p) {
      cl_device_id device;
      if (clGetDeviceIDs(platforms[p], types[t], 1, &device, NULL) == CL_SUCCESS) return device;
    }
  stop("OpenCL", "no device");
  return NULL;
}
)";

constexpr const char* kMainBefore = R"(  device = choose_device();
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  if (status != CL_SUCCESS) stop("OpenCL", "no context");
  queue = clCreateCommandQueue(context, device, 0, &status);
  if (status != CL_SUCCESS) stop("OpenCL", "no queue");
  source = (char*)read_file("@name@.cl", &source_bytes);
  error = @name@_open(&self, context, device, weights, source, source_bytes);
  if (error != @NAME@_OK) {
    fprintf(stderr, "@name@: error %d (OpenCL's %d)\n", error, (int)self.status);
    return 1;
  }
)";

constexpr const char* kMainAfter = R"(  @name@_close(&self);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
)";

constexpr const char* kHostBuild =
    R"(# @name@ as a library, and main.c as an example of its use: run it in the folder that has @name@.cl.
cmake_minimum_required(VERSION 3.13)
project(@name@ LANGUAGES C)
find_package(OpenCL REQUIRED)
add_library(@target@ STATIC @name@.c)
target_include_directories(@target@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
set_target_properties(@target@ PROPERTIES C_STANDARD 11)
target_link_libraries(@target@ PUBLIC OpenCL::OpenCL)
add_executable(run_@name@ main.c)
target_link_libraries(run_@name@ PRIVATE @target@)
)";

class OpenClExport {
public:
  explicit OpenClExport(ExportedProgram& program) : program_(program), layout_(program.layout) {
    for (size_t k = 0; k < layout_.kernels.size(); ++k) {
      sources_.push_back(render::render_opencl(layout_.kernels[k]));
      add_comment(sources_.back(), layout_.comments[k]);
    }
    add_buffer(static_cast<int64_t>(program_.weights.bytes.size()));
    int64_t arena = 0;
    for (const auto& [dtype, bytes] : layout_.arenas) {
      region_[dtype] = arena;
      arena += (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
    }
    add_buffer(arena);
    for (const auto* ports : {&layout_.inputs, &layout_.outputs})
      for (const ProgramLayout::Port& port : *ports)
        add_buffer(largest_bytes(ast::Buffer{0, port.name, port.held.dtype, port.held.shape}));
    for (const render::GridSource& source : sources_) {
      first_temporary_.push_back(bytes_.size());
      for (const auto& temporary : source.temporaries) add_buffer(temporary.bytes);
      for (const std::string& function : source.functions) functions_.push_back(function);
    }
    values_ = {{"name", program_.name},
               {"target", program_.target},
               {"NAME", program_.upper},
               {"kernels", std::to_string(functions_.size())},
               {"buffers", std::to_string(bytes_.size())}};
  }

  std::vector<ExportedFile> files() {
    std::string params;
    for (const std::string& param : value_parameters(layout_)) params += ", " + param;
    values_["params"] = params;
    return {{program_.name + ".cl", render::join_opencl(sources_)},
            {program_.name + ".c", source()},
            {program_.name + ".h", header()},
            {program_.name + ".weights", std::move(program_.weights.bytes)},
            {"main.c", main_file()},
            {"CMakeLists.txt", filled(kHostBuild, values_)}};
  }

private:
  static constexpr size_t kWeights = 0, kArena = 1, kPorts = 2; // numbers of buffers; ports from kPorts on

  void add_buffer(int64_t bytes) { bytes_.push_back(std::max<int64_t>(1, bytes)); }
  size_t input_buffer(size_t k) const { return kPorts + k; }
  size_t output_buffer(size_t k) const { return kPorts + layout_.inputs.size() + k; }

  std::string header() const {
    auto values = values_;
    values["include"] = "#include <CL/cl.h>";
    values["ports"] = port_declarations(program_);
    values["declarations"] = common_declarations(program_);
    return filled(kHostHeader, values);
  }

  std::string source() const {
    auto values = values_;
    values["functions"] = common_functions(program_);
    values["names"] = fmt::format("\"{}\"", fmt::join(functions_, "\", \""));
    values["sizes"] = fmt::format("{}", fmt::join(bytes_, ", "));
    values["body"] = body();
    return filled(kHostSource, values);
  }

  std::string checked(const std::string& call) const {
    return fmt::format("  status = {};\n  if (status != CL_SUCCESS) return {}_fail(self, status);\n", call,
                       program_.name);
  }

  std::string body() const {
    std::string out = size_checks(program_);
    const auto bytes = [&](const ProgramLayout::Port& port) {
      return fmt::format("(size_t){} * {}", count_text(port.held.shape, layout_.var_names),
                         size_of(port.held.dtype));
    };
    for (size_t k = 0; k < layout_.inputs.size(); ++k)
      out += checked(
          fmt::format("clEnqueueWriteBuffer(queue, self->buffers[{}], CL_FALSE, 0, {}, {}, 0, NULL, NULL)",
                      input_buffer(k), bytes(layout_.inputs[k]), layout_.inputs[k].name));
    int function = 0;
    for (size_t k = 0; k < sources_.size(); ++k)
      for (const render::GridLaunch& launch : sources_[k].launches) out += launch_text(k, function++, launch);
    std::vector<bool> copied(layout_.outputs.size());
    for (const ProgramLayout::Copy& copy : layout_.copies) copied[copy.to] = true;
    for (size_t k = 0; k < layout_.outputs.size(); ++k)
      if (!copied[k])
        out += checked(
            fmt::format("clEnqueueReadBuffer(queue, self->buffers[{}], CL_TRUE, 0, {}, {}, 0, NULL, NULL)",
                        output_buffer(k), bytes(layout_.outputs[k]), layout_.outputs[k].name));
    for (const ProgramLayout::Copy& copy : layout_.copies)
      out += fmt::format("  memcpy({}, {}, {});\n", layout_.outputs[copy.to].name,
                         layout_.outputs[copy.from].name, bytes(layout_.outputs[copy.to]));
    return out;
  }

  /// Returns the buffer's number, and the element at which the parameter begins.
  std::pair<size_t, int64_t> place(const ast::Param& param) const {
    const ProgramLayout::Place& place = layout_.place(param);
    const int width = size_of(param.buffer->dtype);
    switch (place.home) {
    case ProgramLayout::Home::Input: return {input_buffer(place.index), 0};
    case ProgramLayout::Home::Output: return {output_buffer(place.index), 0};
    case ProgramLayout::Home::Constant:
      return {kWeights, static_cast<int64_t>(program_.weights.offsets[place.index]) / width};
    case ProgramLayout::Home::Arena: break;
    }
    return {kArena, (region_.at(param.buffer->dtype) + place.offset) / width};
  }

  std::string launch_text(size_t k, int function, const render::GridLaunch& launch) const {
    const ast::Kernel& kernel = layout_.kernels[k];
    std::vector<size_t> buffers;
    std::vector<std::string> numbers, begins, global, local;
    for (const ast::Param& param : kernel.params) {
      const auto [buffer, begin] = place(param);
      buffers.push_back(buffer);
      begins.push_back(std::to_string(begin));
    }
    for (size_t t = 0; t < sources_[k].temporaries.size(); ++t) buffers.push_back(first_temporary_[k] + t);
    for (const Expr var : kernel.shape_vars) numbers.push_back(layout_.var_names.at(var.name()));
    numbers.insert(numbers.end(), begins.begin(), begins.end());
    for (int axis = 0; axis < 3; ++axis) {
      global.push_back(fmt::format("(size_t){}", size_text(launch.global[axis], layout_.var_names)));
      local.push_back(std::to_string(launch.local[axis].value()));
    }
    return fmt::format(R"(  {{
    const int buffers[] = {{{}}};
    const cl_long numbers[] = {{{}}};
    const size_t global[] = {{{}}}, local[] = {{{}}};
    status = {}_launch(self, queue, {}, buffers, {}, numbers, {}, global, local);
    if (status != CL_SUCCESS) return {}_fail(self, status);
  }}
)",
                       fmt::join(buffers, ", "), fmt::join(numbers, ", "), fmt::join(global, ", "),
                       fmt::join(local, ", "), program_.name, function, buffers.size(), numbers.size(),
                       program_.name);
  }

  std::string main_file() const {
    std::string arguments = "&self, queue";
    for (const ProgramLayout::Port& input : layout_.inputs) arguments += ", in_" + input.name;
    for (const ProgramLayout::Port& output : layout_.outputs) arguments += ", out_" + output.name;
    for (const Expr var : layout_.vars) arguments += ", size_of_" + layout_.var_names.at(var.name());
    MainParts parts;
    parts.usage = "./run_" + program_.name;
    parts.helpers = kMainHelpers;
    parts.declarations = fmt::format("  struct {} self;\n  cl_device_id device;\n  cl_context context;\n"
                                     "  cl_command_queue queue;\n  cl_int status;\n  char* source;\n"
                                     "  size_t source_bytes;\n",
                                     program_.name);
    parts.before = filled(kMainBefore, values_);
    parts.call = fmt::format("{}_run({})", program_.name, arguments);
    parts.after = filled(kMainAfter, values_);
    return main_text(program_, parts);
  }

  ExportedProgram& program_;
  const ProgramLayout& layout_;
  std::vector<render::GridSource> sources_; // of each kernel
  std::vector<int64_t> bytes_;              // of each buffer
  std::vector<size_t> first_temporary_;     // of each kernel
  std::vector<std::string> functions_;
  std::map<DType, int64_t> region_; // begin of a dtype's intermediates, bytes into the arena
  std::map<std::string, std::string> values_;
};

} // namespace

std::vector<ExportedFile> export_opencl(ExportedProgram& program) { return OpenClExport(program).files(); }

} // namespace lathe::pipeline
