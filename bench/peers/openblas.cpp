// OpenBLAS, loaded at run time: it picks its kernels while it is being loaded, and the right ones must be
// asked for before that where it doesn't know the CPU (it would fall back to SSE).
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "peers/peers.hpp"

namespace lathe::bench {

namespace {
enum { kRowMajor = 101, kNoTranspose = 111, kTranspose = 112 }; // of CBLAS

struct Library {
  void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a,
                int lda, const float* b, int ldb, float beta, float* c, int ldc) = nullptr;
  void (*somatcopy)(int order, int trans, int rows, int columns, float alpha, const float* a, int lda,
                    float* b, int ldb) = nullptr;
  void (*set_threads)(int) = nullptr;
  const char* (*corename)() = nullptr;
  std::string problem;
};

const Library& library() {
  static const Library loaded = [] {
    Library library;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
      setenv("OPENBLAS_CORETYPE", "SkylakeX", /*overwrite=*/0);
    else if (__builtin_cpu_supports("avx2"))
      setenv("OPENBLAS_CORETYPE", "Haswell", 0);
    setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0); // its idle threads spin for 2^20 cycles, not 2^26
    void* handle = dlopen(LATHE_PEER_OPENBLAS, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      library.problem = dlerror();
      return library;
    }
    auto find = [&](auto& function, const char* name) {
      void* symbol = dlsym(handle, name);
      if (!symbol) library.problem = std::string("has no ") + name;
      std::memcpy(&function, &symbol, sizeof symbol);
    };
    find(library.sgemm, "cblas_sgemm");
    find(library.somatcopy, "cblas_somatcopy");
    find(library.set_threads, "openblas_set_num_threads");
    find(library.corename, "openblas_get_corename");
    return library;
  }();
  return loaded;
}

void multiply(int m, int n, int k, const float* a, const float* b, float* c) {
  library().sgemm(kRowMajor, kNoTranspose, kNoTranspose, m, n, k, 1, a, k, b, n, 0, c, n);
}

std::vector<Contender> contenders(const Case& c, const CompileOptions& plan) {
  if (c.dtype != DType::F32) return {};
  library().set_threads(plan.threads);
  std::vector<int> s(c.shape.begin(), c.shape.end());
  auto to = make_outputs(c);
  std::function<void()> run;
  if (c.program.count("c")) { // a matrix product
    int batch = s.size() == 4 ? s[0] : 1, m = s.end()[-3], n = s.end()[-2], k = s.end()[-1];
    run = [=, a = c.inputs.at("a").as<float>(), b = c.inputs.at("b").as<float>(),
           y = to->at("c").as<float>()] {
      for (int i = 0; i < batch; ++i) multiply(m, n, k, a + i * m * k, b + i * k * n, y + i * m * n);
    };
  } else if (c.workload == "transpose") {
    run = [=, x = c.inputs.at("x").as<float>(), y = to->at("y").as<float>()] {
      library().somatcopy(kRowMajor, kTranspose, s[0], s[1], 1, x, s[1], y, s[0]);
    };
  } else {
    return {};
  }
  return {{"openblas", run, nullptr, to}};
}
} // namespace

Peer openblas_peer() {
  const Library& found = library();
  if (!found.problem.empty()) return {"openblas", false, found.problem, nullptr};
  return {"openblas", true, std::string("OpenBLAS, kernels for ") + found.corename(), contenders};
}

} // namespace lathe::bench
