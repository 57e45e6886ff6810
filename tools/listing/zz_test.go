package listing
import ("testing";"bytes";"time";"fmt";"lightmetal/tools/lmb";"lightmetal/fbs";"lightmetal/fbs/gen")
func TestZZ(t *testing.T){
 image := mustParse(t, context+"main:\n")
 for i:=0;i<1000000;i++ { image.Sequences[0].Commands=append(image.Sequences[0].Commands, lmb.Command{Command:fbs.Command{Opcode:gen.OpcodeWrite,Width:4,Mode:1,Offset:uint32(i%1024)*4,Value:uint64(i),Mask:0xffffffff}}) }
 c:=lmb.Command{Command:fbs.Command{Opcode:gen.OpcodeCopyIn,Width:4,Mode:2,Option:1,Amount:16<<20,Window:5},Data:make([]byte,16<<20)}
 image.Sequences[0].Commands=append(image.Sequences[0].Commands,c)
 s:=time.Now(); var b bytes.Buffer
 if err:=Print(&b,image);err!=nil{t.Fatal(err)}
 fmt.Println("print",time.Since(s),b.Len()); s=time.Now()
 mustParse(t,b.String()); fmt.Println("parse",time.Since(s))
}
