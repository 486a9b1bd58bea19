// A small network learns to tell two spirals apart. One compiled program is a whole step of training: weights
// go in, and the loss and the weights after the step come out, which the next call takes.
#include <cmath>
#include <iostream>
#include <lathe/lathe.hpp>
#include <numbers>
using lathe::Tensor;

int main() {
  constexpr int kPoints = 256, kHidden = 32;
  std::vector<float> places;
  std::vector<float> labels; // 0 or 1
  for (int i = 0; i < kPoints; ++i) {
    const double turn = 0.25 + 1.5 * (i / 2) / (kPoints / 2),
                 angle = 2 * std::numbers::pi * (turn + 0.5 * (i % 2));
    places.insert(places.end(),
                  {static_cast<float>(turn * std::cos(angle)), static_cast<float>(turn * std::sin(angle))});
    labels.push_back(static_cast<float>(i % 2));
  }

  // The weights before the first step. Each also has a velocity, for steps with momentum.
  lathe::NamedTensors state{{"w1", Tensor::randn({2, kHidden}, /*seed=*/1)},
                            {"b1", Tensor::randn({kHidden}, 2)},
                            {"w2", Tensor::randn({kHidden, kHidden}, 3) * (1 / std::sqrt(kHidden))},
                            {"b2", Tensor::zeros({kHidden})},
                            {"w3", Tensor::randn({kHidden, 1}, 4) * (1 / std::sqrt(kHidden))},
                            {"b3", Tensor::zeros({1})}};
  std::vector<std::string> names;
  for (const auto& [name, value] : state) names.push_back(name);
  for (const std::string& name : names)
    state.emplace(name + "_velocity", Tensor::zeros(state.at(name).shape()));

  // The step, as a program.
  lathe::NamedTensors now;
  for (const auto& [name, value] : state) now.emplace(name, Tensor::input(name, value.shape()));
  const Tensor x = Tensor::input("x", {kPoints, 2}), label = Tensor::input("label", {kPoints});
  const Tensor h1 = (x.matmul(now.at("w1")) * 2.0 + now.at("b1")).tanh();
  const Tensor h2 = (h1.matmul(now.at("w2")) + now.at("b2")).tanh();
  const Tensor score = (h2.matmul(now.at("w3")) + now.at("b3")).squeeze(1);
  const Tensor loss = (score.softplus() - label * score).mean(); // cross entropy of sigmoid(score)
  const Tensor right = ((score > 0.0) == (label > 0.5)).cast(lathe::DType::F32).mean();

  std::vector<Tensor> weights;
  for (const std::string& name : names) weights.push_back(now.at(name));
  const std::vector<Tensor> slopes = lathe::gradients(loss, weights);
  lathe::NamedTensors after{{"loss", loss}, {"right", right}};
  for (size_t k = 0; k < names.size(); ++k) {
    const Tensor velocity = now.at(names[k] + "_velocity") * 0.95 - slopes[k] * 0.1;
    after.emplace(names[k] + "_velocity_next", velocity);
    after.emplace(names[k] + "_next", weights[k] + velocity);
  }
  const lathe::Executable step = lathe::compile(after);

  state.emplace("x", Tensor::from(places, {kPoints, 2}));
  state.emplace("label", Tensor::from(labels));
  float first = 0, last = 0;
  constexpr int kSteps = 600;
  for (int i = 0; i <= kSteps; ++i) {
    const lathe::NamedTensors out = step(state);
    for (auto& [name, value] : state)
      if (auto next = out.find(name + "_next"); next != out.end()) value = next->second;
    last = out.at("loss").item<float>();
    if (i == 0) first = last;
    if (i % 200 == 0)
      std::cout << "step " << i << ": loss " << last << ", " << out.at("right").item<float>() * 100
                << " % right\n";
  }
  std::cout << "the loss fell " << (last < first / 10 ? "to less than a tenth" : "too little")
            << "; one step is " << step.kernel_count() << " kernels\n";
  return last < first / 10 ? 0 : 1;
}
