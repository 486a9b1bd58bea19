// lathe: build tensor programs, compile them, run them, read their source.
//
// Processes: exit() may be called while other threads run or compile, and destructors of globals may use lathe. The child
// of a fork may run programs, compile and exit, unless another thread of its parent was compiling at that moment; then it
// may only exec or _exit. docs/reliability.md has the tests.
#pragma once
#include "lathe/array_functions.hpp"
#include "lathe/dtype.hpp"
#include "lathe/error.hpp"
#include "lathe/executable.hpp"
#include "lathe/expr.hpp"
#include "lathe/fft.hpp"
#include "lathe/functions.hpp"
#include "lathe/gradient.hpp"
#include "lathe/linalg.hpp"
#include "lathe/scan.hpp"
#include "lathe/state.hpp"
#include "lathe/substitute.hpp"
#include "lathe/tensor.hpp"
#include "lathe/vmap.hpp"
