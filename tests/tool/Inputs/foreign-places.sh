# Writes the text of $1 with each location in the place of MARK, and gives it to the compiler in the ways a text comes to it.
rule=$1
shift
for way in 'loc("secret":1:1)' 'loc("secret":1:1 to 1:4)' 'loc(fused["secret":1:1, "secret":1:2])' \
  'loc(callsite("secret":1:1 at "secret":1:1))' 'loc("name"("secret":1:1))' 'loc(fused<"x">["secret":1:1])' \
  'loc // ("' 'loc(#a)'; do
  sed "s|MARK|$way|" "$rule" >r.mlir
  altgrad-opt r.mlir --rule=r --emit=ptx --target=sm_80
  altgrad-opt --rule=r --rule-path=. --emit=mlir
  altgrad-opt --rule=./r.mlir --analyze
  altgrad-opt r.mlir
  altgrad-opt <r.mlir
done
# Behind what ends without a blank.
for way in 'x = 1' 'x = 0.5' '%0' 'x = "a"' 'x = 0x1' '#a = '; do
  echo "${way}loc(\"secret\":1:1)" >n.mlir
  altgrad-opt n.mlir --emit=mlir
done
