// lathe: build tensor programs, compile them, run them, read their source.
#pragma once
#include "lathe/dtype.hpp"
#include "lathe/error.hpp"
#include "lathe/executable.hpp"
#include "lathe/expr.hpp"
#include "lathe/gradient.hpp"
#include "lathe/substitute.hpp"
#include "lathe/tensor.hpp"
