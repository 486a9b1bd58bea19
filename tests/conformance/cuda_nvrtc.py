#!/usr/bin/env python3
"""Compiles the CUDA C that lathe-bench emits for ten workloads to a cubin, with NVRTC: no GPU is needed.

cuda_nvrtc.py LATHE_BENCH FOLDER

NVRTC is the PyPI package nvidia-cuda-nvrtc: the installed one, or one that is installed into FOLDER. Exits with 77, which
means skipped, where neither can be had.
"""
import ctypes
import pathlib
import subprocess
import sys

WORKLOADS = ["elementwise", "gelu", "softmax --shape 64x200", "layernorm --shape 64x96", "transpose", "cumsum --shape 64x100",
             "argmax", "matmul", "conv2d", "attention", "mlp", "matmul --dtype f16", "elementwise --dtype bf16",
             "reduce --dtype f64", "elementwise --dtype i32 --shape 1001"]
ARCHITECTURES = ["sm_75", "sm_90"]


def find_library(folder):
    """Path of libnvrtc.so, or None."""
    places = [folder] + [pathlib.Path(p) for p in sys.path if p]
    for place in places:
        found = sorted(place.glob("nvidia/*/lib/libnvrtc.so.*"))
        if found:
            return found[-1]
    return None


def install(folder):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--retries", "1", "--timeout", "20", "--target", str(folder), "nvidia-cuda-nvrtc"]
    try:
        subprocess.run(command, check=True, timeout=300, capture_output=True)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"skipped: nvidia-cuda-nvrtc cannot be installed: {error}")
        sys.exit(77)


class Nvrtc:
    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def compile(self, source, options):
        """Size of the cubin, and the log."""
        program = ctypes.c_void_p()
        self.check(self.library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"lathe.cu", 0, None, None))
        try:
            array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
            result = self.library.nvrtcCompileProgram(program, len(options), array)
            size = ctypes.c_size_t()
            self.check(self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
            log = ctypes.create_string_buffer(size.value)
            self.check(self.library.nvrtcGetProgramLog(program, log))
            if result != 0:
                return 0, log.value.decode()
            self.check(self.library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
            return size.value, log.value.decode()
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))

    def check(self, result):
        if result != 0:
            raise RuntimeError(self.library.nvrtcGetErrorString(result).decode())


def main():
    bench, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    path = find_library(folder)
    if path is None:
        install(folder)
        path = find_library(folder)
    if path is None:
        print("skipped: nvidia-cuda-nvrtc has no libnvrtc.so")
        sys.exit(77)
    nvrtc = Nvrtc(path)
    failures = 0
    for workload in WORKLOADS:
        source = subprocess.run([bench, "emit", *workload.split(), "--target", "cuda"], check=True, capture_output=True,
                                text=True).stdout
        if "extern \"C\" __global__" not in source:
            failures += 1
            print(f"{workload}: no kernel in\n{source}")
            continue
        for architecture in ARCHITECTURES:
            size, log = nvrtc.compile(source, [f"--gpu-architecture={architecture}", "--fmad=false"])
            print(f"{workload}: {architecture}, {source.count('__global__')} kernels, {size} bytes of cubin")
            if size == 0 or "warning" in log:
                failures += 1
                print(log)
    sys.exit(1 if failures else 0)


main()
