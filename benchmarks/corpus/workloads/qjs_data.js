// JSON, strings, regular expressions and lodash over real data
(function () {
  var P = scriptArgs[1], n = 0, lo = self._;
  ["caniuse_train.json", "caniuse_test.json"].forEach(function (file) {
    var db = JSON.parse(readText(P + "/" + file));
    lo.forOwn(db.data, function (feature, name) {
      var stats = lo.mapValues(feature.stats, by => lo.countBy(lo.values(by), x => x.split(" ")[0]));
      n += lo.keys(lo.pickBy(stats, s => s.y > 3)).length + (feature.description.match(/\b[A-Z]\w+/g) || []).length + name.length;
    });
    n += JSON.stringify(db, null, 2).length;
  });
  var text = readText(P + "/docs.md") + readText(P + "/text_train").slice(0, 150000), words = {};
  text.replace(/[A-Za-z_]\w*/g, w => { words[w] = (words[w] || 0) + 1; return w; });
  var top = Object.entries(words).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 300);
  n += text.split("\n").map(s => s.trim().toUpperCase().padEnd(80, ".")).filter(s => /^(?:#+|\*|-)\s/i.test(s)).join("").length;
  n += top.reduce((s, [w, c]) => s + `${w}:${c}`.length, 0) + encodeURIComponent(text.slice(0, 30000)).length;
  print(n, top[0][0], top[0][1]);
})();
