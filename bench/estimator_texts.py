"""Texts in many scripts for testing the token estimate, written for this purpose.

The rates of the estimate were tuned on `PARAGRAPHS`. `CHATS` were written afterwards, to check that the rates also hold
for what people ask agents: short technical texts that contain file names and commands.
"""

from __future__ import annotations

PARAGRAPHS = {
    "English": (
        "The harbour was quiet when the last ferry came in. Two fishermen mended their nets beside the wall, a dog "
        "slept in the shade, and somebody had left a radio on in the kitchen behind the café. We asked the captain "
        "whether the storm would come before the evening. He looked at the sky for a while, shrugged, and said that "
        "the birds had stayed, which was a better sign than any forecast. So we bought bread, filled the bottles, and "
        "decided to walk along the coast."
    ),
    "German": (
        "Der Hafen war still, als die letzte Fähre anlegte. Zwei Fischer flickten neben der Mauer ihre Netze, ein Hund "
        "schlief im Schatten, und in der Küche hinter dem Café lief noch ein Radio. Wir fragten den Kapitän, ob der "
        "Sturm vor dem Abend käme. Er schaute eine Weile in den Himmel, zuckte mit den Schultern und meinte, die Vögel "
        "seien geblieben, das sei ein besseres Zeichen als jede Wettervorhersage. Also kauften wir Brot, füllten die "
        "Flaschen und gingen die Küste entlang."
    ),
    "French": (
        "Le port était calme quand le dernier bateau arriva. Deux pêcheurs réparaient leurs filets près du mur, un "
        "chien dormait à l'ombre, et quelqu'un avait laissé la radio allumée dans la cuisine derrière le café. Nous "
        "avons demandé au capitaine si la tempête viendrait avant le soir. Il regarda le ciel un moment, haussa les "
        "épaules et dit que les oiseaux étaient restés, ce qui valait mieux que toutes les prévisions. Alors nous "
        "avons acheté du pain et longé la côte à pied."
    ),
    "Polish": (
        "W porcie było cicho, kiedy przypłynął ostatni prom. Dwaj rybacy naprawiali sieci pod murem, pies spał w "
        "cieniu, a w kuchni za kawiarnią ktoś zostawił włączone radio. Zapytaliśmy kapitana, czy burza nadejdzie przed "
        "wieczorem. Popatrzył chwilę w niebo, wzruszył ramionami i powiedział, że ptaki zostały, a to lepszy znak niż "
        "każda prognoza. Kupiliśmy więc chleb, napełniliśmy butelki i postanowiliśmy pójść pieszo wzdłuż wybrzeża."
    ),
    "Vietnamese": (
        "Bến cảng yên tĩnh khi chuyến phà cuối cùng cập bến. Hai người đánh cá ngồi vá lưới bên bức tường, một con chó "
        "ngủ trong bóng râm, và ai đó để quên chiếc đài còn mở trong bếp sau quán cà phê. Chúng tôi hỏi thuyền trưởng "
        "liệu cơn bão có đến trước buổi tối không. Ông nhìn trời một lúc, nhún vai và nói rằng đàn chim vẫn ở lại, đó "
        "là dấu hiệu tốt hơn mọi dự báo. Thế là chúng tôi mua bánh mì, đổ đầy nước vào chai và đi bộ dọc theo bờ biển."
    ),
    "Russian": (
        "В гавани было тихо, когда пришёл последний паром. Двое рыбаков чинили сети у стены, собака спала в тени, а на "
        "кухне за кафе кто-то оставил включённое радио. Мы спросили капитана, придёт ли буря до вечера. Он посмотрел "
        "на небо, пожал плечами и сказал, что птицы остались, а это лучшая примета, чем любой прогноз. Тогда мы купили "
        "хлеба, наполнили бутылки и решили идти вдоль берега пешком."
    ),
    "Greek": (
        "Το λιμάνι ήταν ήσυχο όταν έφτασε το τελευταίο πλοίο. Δύο ψαράδες μπάλωναν τα δίχτυα τους δίπλα στον τοίχο, "
        "ένας σκύλος κοιμόταν στη σκιά και κάποιος είχε αφήσει ανοιχτό το ραδιόφωνο στην κουζίνα πίσω από το καφενείο. "
        "Ρωτήσαμε τον καπετάνιο αν η καταιγίδα θα ερχόταν πριν από το βράδυ. Κοίταξε για λίγο τον ουρανό, σήκωσε τους "
        "ώμους και είπε ότι τα πουλιά έμειναν. Έτσι αγοράσαμε ψωμί, γεμίσαμε τα μπουκάλια και περπατήσαμε κατά μήκος "
        "της ακτής."
    ),
    "Hebrew": (
        "הנמל היה שקט כשהמעבורת האחרונה הגיעה. שני דייגים תיקנו את הרשתות שלהם ליד החומה, כלב ישן בצל, ומישהו השאיר "
        "רדיו דולק במטבח שמאחורי בית הקפה. שאלנו את הקברניט אם הסערה תגיע לפני הערב. הוא הביט בשמיים זמן מה, משך "
        "בכתפיו ואמר שהציפורים נשארו, וזה סימן טוב יותר מכל תחזית. אז קנינו לחם, מילאנו את הבקבוקים והחלטנו ללכת לאורך "
        "החוף."
    ),
    "Arabic": (
        "كان الميناء هادئا عندما وصلت العبارة الأخيرة. كان صيادان يصلحان شباكهما بجانب الجدار، وكلب ينام في الظل، وقد "
        "ترك أحدهم المذياع يعمل في المطبخ خلف المقهى. سألنا القبطان هل ستأتي العاصفة قبل المساء. نظر إلى السماء قليلا، "
        "وهز كتفيه، وقال إن الطيور بقيت، وهذه علامة أفضل من أي نشرة جوية. فاشترينا خبزا وملأنا القوارير وقررنا أن نمشي "
        "على طول الساحل."
    ),
    "Hindi": (
        "जब आखिरी नाव आई तब बंदरगाह शांत था। दो मछुआरे दीवार के पास अपने जाल सुधार रहे थे, एक कुत्ता छाया में सो रहा "
        "था, और किसी ने कैफे के पीछे की रसोई में रेडियो चालू छोड़ दिया था। हमने कप्तान से पूछा कि क्या तूफान शाम से "
        "पहले आएगा। उसने थोड़ी देर आसमान की ओर देखा, कंधे उचकाए और कहा कि पक्षी रुके हुए हैं, जो किसी भी पूर्वानुमान "
        "से बेहतर संकेत है। तो हमने रोटी खरीदी, बोतलें भरीं और तट के किनारे चलने का फैसला किया।"
    ),
    "Thai": (
        "ท่าเรือเงียบสงบเมื่อเรือข้ามฟากลำสุดท้ายเข้าเทียบ ชาวประมงสองคนนั่งซ่อมอวนอยู่ข้างกำแพง "
        "สุนัขตัวหนึ่งนอนหลับในร่มเงา และมีใครบางคนเปิดวิทยุทิ้งไว้ในครัวหลังร้านกาแฟ "
        "เราถามกัปตันว่าพายุจะมาก่อนค่ำหรือไม่ เขามองท้องฟ้าอยู่ครู่หนึ่ง ยักไหล่ แล้วบอกว่านกยังอยู่ "
        "ซึ่งเป็นสัญญาณที่ดีกว่าคำพยากรณ์ใด ๆ เราจึงซื้อขนมปัง เติมน้ำใส่ขวด แล้วตัดสินใจเดินเลียบชายฝั่ง"
    ),
    "Georgian": (
        "ნავსადგური წყნარი იყო, როცა ბოლო ბორანი მოვიდა. ორი მეთევზე კედელთან ბადეებს კერავდა, ძაღლს ჩრდილში ეძინა, "
        "კაფეს უკან სამზარეულოში კი ვიღაცას რადიო ჩართული დარჩენოდა. კაპიტანს ვკითხეთ, საღამომდე ქარიშხალი ხომ არ "
        "მოვაო. მან ცას ახედა, მხრები აიჩეჩა და თქვა, ჩიტები დარჩნენო. ჩვენც პური ვიყიდეთ, ბოთლები ავავსეთ და "
        "სანაპიროს გავუყევით."
    ),
    "Chinese": (
        "最后一班渡船进港时，码头上很安静。两个渔夫坐在墙边补网，一条狗在阴凉处睡觉，咖啡馆后面的厨房里有人忘了关收音机。我们问船长，暴风雨会不会在傍晚之前来。他看了一会儿天空，耸了耸肩，说鸟还没有飞走，这比任何天气预报都可靠。于"
        "是我们买了面包，把水瓶装满，决定沿着海岸步行。路上遇到一位老人，他说从前这里每天有二十艘船出海，现在只剩下三艘了，年轻人都去了城里。"
    ),
    "Japanese": (
        "最後のフェリーが着いたとき、港は静かだった。二人の漁師が塀のそばで網を繕い、犬は日陰で眠り、喫茶店の裏の台所では誰かがラジオをつけたままにしていた。嵐は夕方までに来るだろうかと船長に尋ねた。彼はしばらく空を見上げ、肩をす"
        "くめて、鳥がまだ残っているからどんな予報よりも良いしるしだと言った。そこで私たちはパンを買い、水筒をいっぱいにして、海岸沿いを歩くことにした。"
    ),
    "Korean": (
        "마지막 배가 들어왔을 때 항구는 조용했다. 어부 두 사람이 담벼락 옆에서 그물을 손질하고 있었고, 개 한 마리가 "
        "그늘에서 자고 있었으며, 누군가 카페 뒤 부엌에 라디오를 켜 둔 채였다. 우리는 선장에게 저녁이 되기 전에 폭풍이 "
        "올 것 같으냐고 물었다. 그는 한참 하늘을 보더니 어깨를 으쓱하고 새들이 아직 남아 있으니 어떤 일기 예보보다 "
        "좋은 징조라고 말했다. 그래서 우리는 빵을 사고 물병을 채운 뒤 해안을 따라 걷기로 했다."
    ),
    "emoji": "🚢🌊🐕😴 📻☕️ ⛈️❓🐦👍 🥖🍾 🚶‍♂️🏖️ 👩‍👩‍👧‍👦🇫🇷🇯🇵 ✅❌⚠️ 🎉🎉🎉 🤷🏽‍♀️ 🔥💯🙏",
}

CHATS = {
    "English": (
        "The build fails since this morning. Run `make test` and look at the first error in tests/api/test_login.py: "
        "it says that the token has expired after 3600 seconds, although we set `expires_in=7200`. Please find the "
        "reason."
    ),
    "Spanish": (
        "La compilación falla desde esta mañana. Ejecuta `make test` y mira el primer error en "
        "tests/api/test_login.py: dice que el token caducó después de 3600 segundos, aunque pusimos `expires_in=7200`. "
        "Averigua la razón, por favor."
    ),
    "Turkish": (
        "Derleme bu sabahtan beri hata veriyor. `make test` komutunu çalıştır ve tests/api/test_login.py dosyasındaki "
        "ilk hataya bak: `expires_in=7200` yazmamıza rağmen anahtarın süresinin 3600 saniye sonra dolduğunu söylüyor."
    ),
    "Russian": (
        "С утра не проходит сборка. Запусти `make test` и посмотри на первую ошибку в tests/api/test_login.py: там "
        "сказано, что срок токена истёк через 3600 секунд, хотя мы задали `expires_in=7200`. Найди, пожалуйста, "
        "причину."
    ),
    "Arabic": (
        "البناء يفشل منذ هذا الصباح. شغّل `make test` وانظر إلى أول خطأ في tests/api/test_login.py: يقول إن صلاحية "
        "الرمز انتهت بعد 3600 ثانية مع أننا ضبطنا `expires_in=7200`. ابحث عن السبب من فضلك."
    ),
    "Hindi": (
        "आज सुबह से बिल्ड फेल हो रहा है। `make test` चलाओ और tests/api/test_login.py में पहली गलती देखो: लिखा है कि "
        "टोकन 3600 सेकंड बाद समाप्त हो गया, जबकि हमने `expires_in=7200` रखा था। कृपया कारण खोजो।"
    ),
    "Chinese": (
        "从今天早上开始构建就失败了。请运行 `make test`，看一下 tests/api/test_login.py 里的第一个错误：它说令牌在 "
        "3600 秒后过期，可是我们设置的是 `expires_in=7200`。请找出原因，修好之后再补一个测试。"
    ),
    "Japanese": (
        "今朝からビルドが失敗しています。`make test` を実行して、tests/api/test_login.py の最初のエラーを見てください。"
        "`expires_in=7200` を設定したのに、トークンが 3600 秒で期限切れになったと出ています。原因を調べて、テストも追加"
        "してください。"
    ),
    "Korean": (
        "오늘 아침부터 빌드가 실패합니다. `make test`를 실행하고 tests/api/test_login.py의 첫 번째 오류를 확인해 "
        "주세요. `expires_in=7200`으로 설정했는데 토큰이 3600초 뒤에 만료되었다고 나옵니다. 원인을 찾아 주세요."
    ),
}
