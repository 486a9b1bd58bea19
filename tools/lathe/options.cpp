#include <charconv>

#include <fmt/format.h>

#include "commands.hpp"

namespace lathe::tool {

onnx::ImportOptions import_options(const Options& options) {
  onnx::ImportOptions import;
  import.compile.device = options.device.empty() ? default_device() : options.device;
  import.compile.cpu = options.cpu;
  import.compile.threads = options.threads;
  import.compile.winograd = options.winograd;
  import.compile.strassen = options.strassen;
  import.compile.use_database = options.tuned;
  import.compile.trace = options.trace;
  import.versions = options.versions;
  for (const std::string& text : options.sizes) {
    const size_t equals = text.find('=');
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const bool good = equals != std::string::npos && equals > 0 &&
                      std::from_chars(text.data() + equals + 1, end, value).ptr == end && value > 0;
    if (!good) throw Error(ErrorKind::Value, fmt::format("--size {}: expected name=number", text));
    import.sizes[text.substr(0, equals)] = value;
  }
  return import;
}

} // namespace lathe::tool
