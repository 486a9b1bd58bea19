#include "compile/export/export_text.hpp"

#include <fmt/format.h>

#include "render/c_dialect.hpp"

namespace lathe::pipeline {
namespace {

std::map<std::string, std::string> names_of(const ExportedProgram& program) {
  return {{"name", program.name}, {"NAME", program.upper}};
}

/// Returns the expression for element k of an input that no file gives.
std::string ramp(DType dtype) {
  if (dtype == DType::F16) return "(uint16_t)(k % 2 ? 0x3C00 : 0)"; // 1 and 0
  if (dtype == DType::BF16) return "(uint16_t)(k % 2 ? 0x3F80 : 0)";
  return fmt::format("({}){}", storage_type(dtype), is_float(dtype) ? "(k % 256) / 256" : "(k % 2)");
}

std::string print(DType dtype, const std::string& element) {
  if (dtype == DType::F32) return fmt::format("printf(\"%.9g\\n\", (double){});", element);
  if (dtype == DType::F64) return fmt::format("printf(\"%.17g\\n\", {});", element);
  if (is_float(dtype)) return fmt::format("printf(\"0x%04x\\n\", (unsigned){});", element);
  return is_signed(dtype) ? fmt::format("printf(\"%lld\\n\", (long long){});", element)
                          : fmt::format("printf(\"%llu\\n\", (unsigned long long){});", element);
}

constexpr const char* kDeclarations = R"(
enum {
  @NAME@_OK = 0,
  @NAME@_NOT_WEIGHTS = 1,     /* no file of weights */
  @NAME@_OTHER_WEIGHTS = 2,   /* those of another program, or with a damaged header */
  @NAME@_DAMAGED_WEIGHTS = 3, /* not all there, or changed */
  @NAME@_MISALIGNED = 4,      /* memory that does not begin at a multiple of 8 */
  @NAME@_NO_MEMORY = 5,
  @NAME@_BAD_SIZE = 6,        /* out of bounds */
  @NAME@_DEVICE_FAILED = 7
};

/* The weights are the bytes of @name@.weights, at a multiple of 8, better of 64. This reads all of them and compares sizes and
   checksum; what runs the program looks at their header only. */
#define @NAME@_WEIGHTS_BYTES @bytes@
int @name@_check_weights(const void* weights, size_t bytes);
)";

constexpr const char* kFunctions = R"(
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the weights are little endian"
#endif

static const unsigned char @name@_header[@header@] = {@values@};

static int @name@_check_header(const void* weights) {
  if (!weights || memcmp(weights, @name@_header, 8) != 0) return @NAME@_NOT_WEIGHTS;
  return memcmp(weights, @name@_header, @header@) == 0 ? @NAME@_OK : @NAME@_OTHER_WEIGHTS;
}

int @name@_check_weights(const void* weights, size_t bytes) {
  const unsigned char* const file = (const unsigned char*)weights;
  uint64_t hash = bytes - @header@, expected;
  size_t k;
  int error;
  if (bytes < @header@) return @NAME@_NOT_WEIGHTS;
  error = @name@_check_header(weights);
  if (error != @NAME@_OK) return error;
  if (bytes != @NAME@_WEIGHTS_BYTES) return @NAME@_DAMAGED_WEIGHTS;
  for (k = @header@; k < bytes; k += 8) {
    uint64_t word;
    memcpy(&word, file + k, 8);
    word *= UINT64_C(0x9E3779B97F4A7C15);
    word ^= word >> 32;
    hash = (hash ^ word) * UINT64_C(0xD6E8FEB86659FD93);
    hash ^= hash >> 29;
  }
  memcpy(&expected, file + 16, 8);
  return hash == expected ? @NAME@_OK : @NAME@_DAMAGED_WEIGHTS;
}
)";

constexpr const char* kMainHead = R"(/* How @name@ is used.

     @usage@

   Inputs are files of elements as they lie in memory; where there is none, or -, a ramp. Prints the outputs' elements, one a line,
   those of f16 and bf16 by their bits. RUNS=n in the environment times n runs. */
#include "@name@.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void stop(const char* which, const char* what) {
  fprintf(stderr, "%s: %s\n", which, what);
  exit(1);
}

/* At a multiple of 64; kept till the end. */
static void* memory(size_t bytes) {
  unsigned char* const block = (unsigned char*)malloc(bytes + 64);
  if (!block) stop("main", "no memory");
  return block + (64 - (uintptr_t)block % 64);
}

static void* read_file(const char* path, size_t* bytes) {
  FILE* const file = fopen(path, "rb");
  long end = -1;
  void* data;
  if (file && fseek(file, 0, SEEK_END) == 0) end = ftell(file);
  if (end < 0) stop(path, "can't be read");
  rewind(file);
  *bytes = (size_t)end;
  data = memory(*bytes);
  if (fread(data, 1, *bytes, file) != *bytes) stop(path, "can't be read");
  fclose(file);
  return data;
}
@reads@
static double now(void) {
  struct timespec time;
  timespec_get(&time, TIME_UTC);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare_times(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}
@helpers@
int main(int argc, char** argv) {
  int argument = 1, error;
  size_t k, bytes;
  void* weights;
@declarations@)";

constexpr const char* kMainReadValues = R"(
static void read_values(const char* path, void* values, size_t bytes) {
  size_t found;
  const void* const data = read_file(path, &found);
  if (found != bytes) stop(path, "is not of the input's size");
  memcpy(values, data, bytes);
}
)";

constexpr const char* kMainWeights = R"(  if (argc < @least@) stop("usage", "@usage@");
  weights = read_file(argv[argument++], &bytes);
  error = @name@_check_weights(weights, bytes);
  if (error != @NAME@_OK) {
    fprintf(stderr, "%s: not the weights of @name@, or damaged (%d)\n", argv[1], error);
    return 1;
  }
)";

constexpr const char* kMainRun = R"(@before@  error = @call@;
  if (error != @NAME@_OK) {
    fprintf(stderr, "@name@: error %d\n", error);
    return 1;
  }
  if (getenv("RUNS") && atoi(getenv("RUNS")) > 0) {
    const int runs = atoi(getenv("RUNS"));
    double* const times = (double*)memory((size_t)runs * sizeof(double));
    int run;
    for (run = 0; run < runs; ++run) {
      const double start = now();
      (void)@call@;
      times[run] = now() - start;
    }
    qsort(times, (size_t)runs, sizeof *times, compare_times);
    fprintf(stderr, "median of %d runs: %.3f ms\n", runs, 1e3 * times[runs / 2]);
  }
)";

} // namespace

std::string storage_type(DType dtype) { return render::make_c_dialect(16)->storage_type(dtype); }

std::string filled(std::string text, const std::map<std::string, std::string>& values) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('@', at);
    out.append(text, at, open - at);
    if (open == std::string::npos) break;
    const size_t close = text.find('@', open + 1);
    out += values.at(text.substr(open + 1, close - open - 1));
    at = close + 1;
  }
  return out;
}

std::vector<std::string> value_parameters(const ProgramLayout& layout) {
  std::vector<std::string> params;
  for (const auto* ports : {&layout.inputs, &layout.outputs})
    for (const ProgramLayout::Port& port : *ports)
      params.push_back(fmt::format("{}{}* {}", port.declared.written ? "" : "const ",
                                   storage_type(port.held.dtype), port.name));
  for (const Expr var : layout.vars) params.push_back("int64_t " + layout.var_names.at(var.name()));
  return params;
}

std::string port_declarations(const ExportedProgram& program) {
  std::vector<std::string> vars;
  for (const Expr var : program.layout.vars) vars.push_back(program.layout.var_names.at(var.name()));
  const std::string list = vars.empty() ? "" : fmt::format("({})", fmt::join(vars, ", "));
  std::string out;
  const auto add = [&](const char* kind, const ProgramLayout::Port& port) {
    const char* bytes = is_narrow(port.declared.dtype) ? ", in bytes, low bits first" : "";
    out += fmt::format("/* {} {}: {}{}{} */\n#define {}_{}_ELEMENTS{} {}\n", kind, port.name,
                       to_string(port.declared.dtype), to_string(port.declared.shape), bytes, program.upper,
                       in_capitals(port.name), list, count_text(port.held.shape, program.layout.var_names));
  };
  for (const ProgramLayout::Port& input : program.layout.inputs) add("input", input);
  for (const ProgramLayout::Port& output : program.layout.outputs) add("output", output);
  for (const Expr var : program.layout.vars)
    out +=
        fmt::format("/* size {}: {} to {} */\n", program.layout.var_names.at(var.name()), var.lo(), var.hi());
  return out;
}

std::string common_declarations(const ExportedProgram& program) {
  auto values = names_of(program);
  values["bytes"] = std::to_string(program.weights.bytes.size());
  return filled(kDeclarations, values);
}

std::string common_functions(const ExportedProgram& program) {
  auto values = names_of(program);
  values["header"] = std::to_string(WeightsFile::kHeaderBytes);
  std::vector<int> header; // C fills the rest of the array with zeros
  for (size_t k = 0; k < WeightsFile::kCheckedBytes; ++k)
    header.push_back(static_cast<unsigned char>(program.weights.bytes[k]));
  values["values"] = fmt::format("{}", fmt::join(header, ", "));
  return filled(kFunctions, values);
}

std::string size_checks(const ExportedProgram& program) {
  std::string out;
  for (const Expr var : program.layout.vars)
    out += fmt::format("  if ({0} < {1} || {0} > {2}) return {3}_BAD_SIZE;\n",
                       program.layout.var_names.at(var.name()), var.lo(), var.hi(), program.upper);
  return out;
}

std::string main_text(const ExportedProgram& program, const MainParts& parts) {
  const ProgramLayout& layout = program.layout;
  std::string usage = fmt::format("{} {}.weights", parts.usage, program.name);
  std::vector<std::string> sizes;
  for (const Expr var : layout.vars) {
    usage += " " + layout.var_names.at(var.name());
    sizes.push_back("size_of_" + layout.var_names.at(var.name()));
  }
  for (const ProgramLayout::Port& input : layout.inputs) usage += fmt::format(" [{}]", input.name);
  auto values = names_of(program);
  values.insert({{"usage", usage},
                 {"declarations", parts.declarations},
                 {"helpers", parts.helpers},
                 {"before", parts.before},
                 {"call", parts.call},
                 {"reads", layout.inputs.empty() ? "" : kMainReadValues},
                 {"least", std::to_string(2 + layout.vars.size())}});
  std::string out = filled(kMainHead, values), body;
  const std::string arguments = sizes.empty() ? "" : fmt::format("({})", fmt::join(sizes, ", "));
  const auto count = [&](const ProgramLayout::Port& port) {
    return fmt::format("(size_t){}_{}_ELEMENTS{}", program.upper, in_capitals(port.name), arguments);
  };
  for (const std::string& size : sizes) {
    out += fmt::format("  int64_t {};\n", size);
    body += fmt::format("  {} = strtoll(argv[argument++], NULL, 10);\n", size);
  }
  for (const ProgramLayout::Port& input : layout.inputs) {
    const std::string type = storage_type(input.held.dtype);
    out += fmt::format("  {}* in_{};\n", type, input.name);
    body += fmt::format(R"(  in_{0} = ({1}*)memory({2} * sizeof *in_{0});
  if (argument < argc && strcmp(argv[argument], "-") != 0)
    read_values(argv[argument], in_{0}, {2} * sizeof *in_{0});
  else
    for (k = 0; k != {2}; ++k) in_{0}[k] = {3};
  ++argument;
)",
                        input.name, type, count(input), ramp(input.held.dtype));
  }
  std::string prints;
  for (const ProgramLayout::Port& output : layout.outputs) {
    const std::string type = storage_type(output.held.dtype);
    out += fmt::format("  {}* out_{};\n", type, output.name);
    body +=
        fmt::format("  out_{0} = ({1}*)memory({2} * sizeof *out_{0});\n", output.name, type, count(output));
    prints += fmt::format("  for (k = 0; k != {}; ++k) {}\n", count(output),
                          print(output.held.dtype, fmt::format("out_{}[k]", output.name)));
  }
  return out + filled(kMainWeights, values) + body + filled(kMainRun, values) + prints + parts.after +
         "  return 0;\n}\n";
}

} // namespace lathe::pipeline
